"""Frozen opponents acting in a league's seats: one opponent per slot and episode."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.moments import Moments
from rlrun.engine.league.frozen_policy import loaded_weights, saved_weights
from rlrun.engine.league.scripted_opponent import ScriptedOpponent, undecided
from rlrun.engine.policy.action_spaces.action_space import ActionSpace
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.weights import Member, Weights

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]

CHOICE, SCRIPT, OWN = 0, 1, 2
"""Offsets in a step's noise vector: opponent choice, scripts' seed, and start of the policies' noise."""


class SeatNoise:
    """Source of a seat's random numbers: for the choice of opponents, for scripts, and for each policy's actions.

    Args:
        policies: Behavior policy of each policy whose versions play in the seat.

    Attributes:
        network_noise: 0, since the noise of the opponents' networks is within each policy's part.
        network_noise_every: None, since noise is drawn at each step.
        parts: Slice of each policy's noise within a step's noise vector.
    """

    network_noise = 0
    network_noise_every: int | None = None

    def __init__(self, policies: Mapping[str, BehaviorPolicy]) -> None:
        self._sources = {policy: behavior.noise_source for policy, behavior in policies.items()}
        self.parts: dict[str, slice] = {}
        end = OWN
        for policy, source in self._sources.items():
            width = source.noise(np.random.Generator(np.random.Philox(0)), 1, 1).shape[-1]
            self.parts[policy] = slice(end, end + width)
            end += width

    def assign_envs(self, first_slot: int, num_slots: int) -> None:
        """Tells the noise sources of the opponents' policies the range of env slots that this worker steps."""
        for source in self._sources.values():
            source.assign_envs(first_slot, num_slots)

    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Samples a fragment's noise, [T, B, N].

        The first two numbers are for the choice of an opponent and for scripts; each policy's noise follows.
        """
        own = generator.random((length, slots, OWN), np.float32)
        others = [source.noise(generator, length, slots) for source in self._sources.values()]
        return np.concatenate([own, *others], axis=-1)


class ActionsAlone:
    """Recorder that stores only frozen opponents' actions: no policy learns from them, but a resumed run replays them.

    Args:
        action_space: Converts between the policies' internal actions and the env's actions.

    Attributes:
        world_columns: Empty, since no policy learns from these fragments.
    """

    world_columns: tuple[str, ...] = ()

    def __init__(self, action_space: ActionSpace) -> None:
        self._space = action_space

    def allocate(self, length: int, slots: int, lent: SampleBatch | None = None) -> SampleBatch:
        """Allocates the array for recorded actions of T steps in B slots, [T, B, ...], unless `lent` provides it."""
        space = self._space
        actions = np.empty((length, slots, *space.action_shape), space.action_dtype)
        return SampleBatch(actions=actions) if lent is None else SampleBatch(lent)

    def close(self, batch: SampleBatch, episode_starts: Flags, shown: Flags) -> None:
        """Does nothing: observations, including those after a fragment's last step, are not recorded."""

    def moments(self, observations: Any, filled: Flags) -> dict[str, Moments]:
        """Returns no observation statistics, since frozen opponents' statistics do not change."""
        return {}

    def postprocess(self, batch: SampleBatch) -> None:
        """Removes all columns of a fragment except `valid`, from which steps are counted."""
        for name in [name for name in batch if name != "valid"]:
            del batch[name]


class SeatBehavior:
    """Behavior policy of a league seat: in each slot and episode, a frozen opponent sampled from the lineup acts.

    When an agent's episode begins in a slot, an opponent is sampled for the slot with the lineup's probabilities. The
    opponent acts until the episode ends, with unchanged weights, even if the pool changes. Opponents are sampled with
    the fragment's pre-drawn noise, so that the choice does not depend on scheduling. Agents in the same env get
    independent opponents.

    Fragments are not learned from; only actions are recorded, so that a resumed run can replay them.

    Args:
        policies: Behavior policy, without weights yet, for each policy whose versions play in the seat.
        action_space: Converts between the policies' internal actions and the env's actions.

    Attributes:
        weights_version: Version of the lineup, -1 before the first.
        noise_source: Source of the random numbers that select opponents, and of all policies' noise.
        collector: Recorder of fragments, which stores only their actions.
    """

    def __init__(self, policies: Mapping[str, BehaviorPolicy], action_space: ActionSpace) -> None:
        self.weights_version = -1
        self.action_space = action_space
        self.noise_source = SeatNoise(policies)
        self.collector = ActionsAlone(action_space)
        self._policies = policies
        self._members: dict[str, Member] = {}
        self._names: tuple[str, ...] = ()
        self._bounds = np.zeros(0)
        self._players: dict[str, _PolicyPlayer] = {}
        self._scripts: dict[str, _ScriptPlayer] = {}
        self._holds: list[str] = []
        self._draws = np.random.Generator(np.random.Philox(0))
        self._starts: Flags = np.zeros(0, np.bool_)

    def load(self, weights: Weights) -> None:
        """Loads a new lineup (opponents and their probabilities), which applies to episodes that begin from now on."""
        lineup = weights.lineup
        assert lineup is not None  # weights sent to a seat always have a lineup
        self.weights_version = weights.version
        self._members = {member.name: member for member in lineup.members}
        self._names = tuple(self._members)
        self._bounds = np.cumsum(lineup.probabilities)
        self._players = {name: player for name, player in self._players.items() if name in self._holds}
        for member in lineup.members:
            if member.weights is None and member.name not in self._scripts:
                self._scripts[member.name] = _ScriptPlayer(member.name, self.action_space)
        self._release_unknown()

    def _release_unknown(self) -> None:
        """Unassigns slots whose restored opponent is not in the lineup."""
        if self._members:
            known = {*self._members, *self._players, *self._scripts}
            self._holds = [name if name in known else "" for name in self._holds]

    def act(
        self,
        observations: Any,
        noise: Floats,
        record: SampleBatch,
        t: int,
        episode_starts: Flags,
        acts: Flags | None = None,
        rows: NDArray[np.int64] | None = None,
    ) -> Any:
        """Chooses the actions of all B slots for one step, with one batched call per opponent.

        Args:
            observations: Unfiltered observations, a tree of [B, ...].
            noise: This step's noise, [B, ...].
            record: Arrays of the fragment's actions, in which row t is filled, or the rows in `rows`.
            t: Index of the step within the fragment.
            episode_starts: Whether an agent's episode begins with this observation, [B].
            acts: Whether a slot acts, [B]; None for all.
            rows: The row to fill for each slot that acts, [N]; None for row t.

        Returns:
            Actions for the world, [B, ...].
        """
        shown = np.ones(len(episode_starts), np.bool_) if acts is None else acts
        actions = self._chosen(observations, noise, episode_starts, shown)
        where = t if acts is None else (t if rows is None else rows, acts)
        record["actions"][where] = actions if acts is None else actions[acts]
        return self.action_space.to_env(actions)

    def _chosen(self, observations: Any, noise: Floats, starts: Flags, shown: Flags) -> NDArray[Any]:
        """Chooses the policies' internal actions for slots with an observation, [B, ...]; zeros elsewhere."""
        number = len(shown)
        if len(self._holds) != number:
            self._holds = [""] * number
        slots_of: dict[str, list[int]] = {}
        for slot in undecided(observations, shown).nonzero()[0].tolist():
            if starts[slot] or not self._holds[slot]:
                drawn = int(np.searchsorted(self._bounds, noise[slot, CHOICE], side="right"))
                self._holds[slot] = self._names[min(drawn, len(self._names) - 1)]
            slots_of.setdefault(self._holds[slot], []).append(slot)
        actions = np.zeros((number, *self.action_space.action_shape), self.action_space.action_dtype)
        for name, slots in slots_of.items():
            player = self._scripts.get(name) or self._player(name)
            actions[slots] = player.act(observations, noise, starts, slots)
        return actions

    def _player(self, name: str) -> _PolicyPlayer:
        """Returns the player for a past or current self, creating it at its first action."""
        if name not in self._players:
            self._players[name] = self._made(self._members[name])
        return self._players[name]

    def _made(self, member: Member) -> _PolicyPlayer:
        behavior = copy.deepcopy(self._policies[member.policy])
        return _PolicyPlayer(member, behavior, self.noise_source.parts[member.policy])

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Passes the last step's rewards in B slots to those opponents whose policies observe past rewards."""
        for player in self._players.values():
            player.take_rewards(rewards)

    def begin_episodes(self, starts: Flags) -> None:
        """Marks the slots where a new episode begins (`starts` [B]): each gets a newly sampled opponent."""
        self._starts = starts

    def actions(self, observations: Any, generator: np.random.Generator | None, acts: Flags | None = None) -> Any:
        """Returns sampled actions of B slots while no fragment is recorded, as in evaluation.

        Opponents sample actions as in training, with the given generator or, if there is none, with the seat's
        generator.
        """
        draws = self._draws if generator is None else generator
        number = len(self._starts)
        shown = np.ones(number, np.bool_) if acts is None else acts
        noise = self.noise_source.noise(draws, 1, number)[0]
        return self.action_space.to_env(self._chosen(observations, noise, self._starts, shown))

    def state(self) -> dict[str, Any]:
        """Returns each slot's opponent with its weights for checkpoints, since the pool may have dropped it."""
        held = {name: self._players[name] for name in dict.fromkeys(self._holds) if name in self._players}
        return {"holds": list(self._holds), "players": {name: player.state() for name, player in held.items()}}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the opponent in each slot from `state()`.

        A scripted opponent can only be restored from the lineup; a slot whose script is not in the lineup gets another
        opponent.
        """
        self._holds = [str(name) for name in state["holds"]]
        self._players = {}
        for name, saved in state["players"].items():
            self._players[name] = self._made(Member(name, saved["policy"], loaded_weights(saved["weights"])))
            self._players[name].load_state(saved["behavior"])
        self._release_unknown()


class _PolicyPlayer:
    """Opponent with a frozen policy, which samples its actions.

    Args:
        member: The opponent.
        behavior: Behavior policy of the opponent, not shared with others.
        noise: Slice of the policy's noise within a step's noise vector.
    """

    def __init__(self, member: Member, behavior: BehaviorPolicy, noise: slice) -> None:
        assert member.weights is not None
        self._member = member
        self._weights = member.weights
        self._behavior = behavior
        self._noise = noise
        self._record = SampleBatch()
        behavior.load(member.weights)

    def act(self, observations: Any, noise: Floats, starts: Flags, slots: list[int]) -> NDArray[Any]:
        """Chooses the policy's own actions for some slots, [N, ...]."""
        if not self._record:
            self._record = self._behavior.collector.allocate(1, len(starts))
        acts = np.zeros(len(starts), np.bool_)
        acts[slots] = True
        self._behavior.act(observations, noise[:, self._noise], self._record, 0, starts, acts)
        taken: NDArray[Any] = self._record["actions"][0, slots]
        return taken

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Passes the rewards of the last step, [B], to the policy."""
        self._behavior.take_rewards(rewards)

    def state(self) -> dict[str, Any]:
        """Returns the opponent's weights and its behavior policy's state."""
        return {
            "policy": self._member.policy,
            "weights": saved_weights(self._weights),
            "behavior": self._behavior.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the behavior policy from the `behavior` entry of `state()`."""
        self._behavior.load_state(state)


class _ScriptPlayer:
    """Opponent whose actions are chosen by a script.

    Args:
        path: Name or import path of the opponent.
        space: Conversion between the policies' own actions and the world's actions.
    """

    def __init__(self, path: str, space: ActionSpace) -> None:
        self._opponent = ScriptedOpponent(path)
        self._space = space

    def act(self, observations: Any, noise: Floats, starts: Flags, slots: list[int]) -> NDArray[Any]:
        """Chooses the policies' own actions for some slots, [N, ...]."""
        return self._space.from_env(np.asarray(self._opponent.decide(observations, noise[:, SCRIPT], slots)))
