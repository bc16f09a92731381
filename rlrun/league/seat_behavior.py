"""What acts in a seat: in each slot a frozen opponent, from its agent's first observation to its last."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.functional.moments import Moments
from rlrun.league.saved_weights import loaded_weights, saved_weights
from rlrun.league.scripted_opponent import ScriptedOpponent, undecided
from rlrun.policy.action_spaces.action_space import ActionSpace
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.weights import Member, Weights

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]

CHOICE, SCRIPT, OWN = 0, 1, 2
"""Where a step's noise holds what chooses the opponent, what seeds a script, and the first policy's own noise."""


class SeatBehavior:
    """Acts in a seat's slots with the opponents of its lineup.

    In each slot an opponent is drawn when an agent's episode begins there, by the probabilities that came with the last
    weights, and it stays until that episode ends: its weights never change within one, even if the pool does. What
    draws it is a number of the fragment's noise, so that scheduling changes nothing. Agents of one world draw apart.

    Nobody learns from what is recorded; only actions are, for a return to a saved place.

    Args:
        policies: The policies whose selves sit here, as they act, without weights.
        action_space: The policies' own actions over the world's.

    Attributes:
        weights_version: Version of the lineup, -1 before the first.
        world_columns: None; nobody learns from its fragments.
        network_noise: 0; what the opponents' networks draw is theirs.
        network_noise_every: None; it is drawn anew for each step.
    """

    def __init__(self, policies: Mapping[str, BehaviorPolicy], action_space: ActionSpace) -> None:
        self.weights_version = -1
        self.world_columns: tuple[str, ...] = ()
        self.network_noise = 0
        self.network_noise_every: int | None = None
        self._policies = policies
        self._space = action_space
        self._members: dict[str, Member] = {}
        self._names: tuple[str, ...] = ()
        self._bounds = np.zeros(0)
        self._players: dict[str, _PolicyPlayer] = {}
        self._scripts: dict[str, _ScriptPlayer] = {}
        self._holds: list[str] = []
        self._noise = _noise_of(policies)
        self._draws = np.random.Generator(np.random.Philox(0))
        self._starts: Flags = np.zeros(0, np.bool_)

    def load(self, weights: Weights) -> None:
        """Takes a new lineup: whoever begins an episode from now on draws from it."""
        lineup = weights.lineup
        assert lineup is not None  # weights of a seat
        self.weights_version = weights.version
        self._members = {member.name: member for member in lineup.members}
        self._names = tuple(self._members)
        self._bounds = np.cumsum(lineup.probabilities)
        self._players = {name: player for name, player in self._players.items() if name in self._holds}
        for member in lineup.members:
            if member.weights is None and member.name not in self._scripts:
                self._scripts[member.name] = _ScriptPlayer(member.name, self._space)
        self._dismiss_strangers()

    def _dismiss_strangers(self) -> None:
        """Frees slots of opponents of whom nothing is known; without a lineup it waits for one."""
        if self._members:
            known = {*self._members, *self._players, *self._scripts}
            self._holds = [name if name in known else "" for name in self._holds]

    def assign_envs(self, first_slot: int, num_slots: int) -> None:
        """Is told in which slots it acts."""
        for behavior in self._policies.values():
            behavior.assign_envs(first_slot, num_slots)

    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Draws the noise of a whole fragment, [T, B, 2 + the noise of every policy]."""
        parts = [generator.random((length, slots, OWN), np.float32)]
        parts += [behavior.noise(generator, length, slots) for behavior in self._policies.values()]
        return np.concatenate(parts, axis=-1)

    def allocate_fragment(self, length: int, slots: int) -> SampleBatch:
        """Returns empty arrays for the actions, [T, B, ...]."""
        space = self._space
        return SampleBatch(actions=np.empty((length, slots, *space.action_shape), space.action_dtype))

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
        """Acts once for all slots, with one call for each opponent among those that act.

        Args:
            observations: Raw observations, a tree of [B, ...].
            noise: This step's noise, [B, ...].
            record: The fragment's actions; row t is filled, unless `rows` says otherwise.
            t: The step within the fragment.
            episode_starts: In which slots an agent's episode begins with this observation, [B].
            acts: Which slots act, [B]; None for all.
            rows: The row that each of those that act fills, [N]; None for row t.

        Returns:
            Actions for the world, [B, ...].
        """
        shown = np.ones(len(episode_starts), np.bool_) if acts is None else acts
        actions = self._chosen(observations, noise, episode_starts, shown)
        where = t if acts is None else (t if rows is None else rows, acts)
        record["actions"][where] = actions if acts is None else actions[acts]
        return self._space.to_env(actions)

    def _chosen(self, observations: Any, noise: Floats, starts: Flags, shown: Flags) -> NDArray[Any]:
        """Returns the policies' own actions of the slots that show something, [B, ...]; zeros elsewhere."""
        number = len(shown)
        if len(self._holds) != number:
            self._holds = [""] * number
        slots_of: dict[str, list[int]] = {}
        for slot in undecided(observations, shown).nonzero()[0].tolist():
            if starts[slot] or not self._holds[slot]:
                drawn = int(np.searchsorted(self._bounds, noise[slot, CHOICE], side="right"))
                self._holds[slot] = self._names[min(drawn, len(self._names) - 1)]
            slots_of.setdefault(self._holds[slot], []).append(slot)
        actions = np.zeros((number, *self._space.action_shape), self._space.action_dtype)
        for name, slots in slots_of.items():
            player: _Player = self._scripts[name] if name in self._scripts else self._player(name)
            actions[slots] = player.act(observations, noise, starts, slots)
        return actions

    def _player(self, name: str) -> _PolicyPlayer:
        """Returns what acts for a past or present self, made when it first acts."""
        if name not in self._players:
            self._players[name] = self._made(self._members[name])
        return self._players[name]

    def _made(self, member: Member) -> _PolicyPlayer:
        behavior = copy.deepcopy(self._policies[member.policy])
        return _PolicyPlayer(member, behavior, self._noise[member.policy])

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Is told what each slot was given in the step that was just taken, [B]."""
        for player in self._players.values():
            player.take_rewards(rewards)

    def close_fragment(self, batch: SampleBatch, episode_starts: Flags, shown: Flags) -> None:
        """Records nothing: nobody learns from it."""

    def postprocess(self, batch: SampleBatch) -> None:
        """Leaves of a fragment only which rows agents filled, which is counted."""
        for name in [name for name in batch if name != "valid"]:
            del batch[name]

    def begin_episodes(self, starts: Flags) -> None:
        """Is told in which slots an episode begins with what `actions` is asked about next, [B]."""
        self._starts = starts

    def actions(self, observations: Any, generator: np.random.Generator | None, acts: Flags | None = None) -> Any:
        """Returns actions for the world, [B, ...], outside of fragments.

        Opponents draw as they do in training: from the generator or, without one, by draws of the seat's own.
        """
        draws = self._draws if generator is None else generator
        number = len(self._starts)
        shown = np.ones(number, np.bool_) if acts is None else acts
        noise = self.noise(draws, 1, number)[0]
        return self._space.to_env(self._chosen(observations, noise, self._starts, shown))

    def env_actions(self, actions: Any) -> Any:
        """Turns recorded actions [N, ...] into what the world was given."""
        return self._space.to_env(actions)

    def observation_moments(self, observations: Any, filled: Flags) -> dict[str, Moments]:
        """Returns that no statistics are wanted: filters are frozen with their weights."""
        return {}

    def state(self) -> dict[str, Any]:
        """Returns who sits in which slot, with the weights, which the pool may have dropped since."""
        held = {name: self._players[name] for name in dict.fromkeys(self._holds) if name in self._players}
        return {"holds": list(self._holds), "players": {name: player.state() for name, player in held.items()}}

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned; a lineup may come before it or behind.

        Only the lineup says which scripts there are: where one sat that is not in it, another opponent takes over.
        """
        self._holds = [str(name) for name in state["holds"]]
        self._players = {}
        for name, saved in state["players"].items():
            self._players[name] = self._made(Member(name, saved["policy"], loaded_weights(saved["weights"])))
            self._players[name].load_state(saved["behavior"])
        self._dismiss_strangers()


def _noise_of(policies: Mapping[str, BehaviorPolicy]) -> dict[str, slice]:
    """Returns where each policy's noise stands in a step's."""
    found, end = {}, OWN
    for policy, behavior in policies.items():
        width = behavior.noise(np.random.Generator(np.random.Philox(0)), 1, 1).shape[-1]
        found[policy] = slice(end, end + width)
        end += width
    return found


class _Player(Protocol):
    """An opponent that acts."""

    def act(self, observations: Any, noise: Floats, starts: Flags, slots: list[int]) -> NDArray[Any]:
        """Returns the policies' own actions of the given slots, [N, ...]."""


class _PolicyPlayer:
    """A policy with frozen weights, which draws its actions.

    Args:
        member: Who it is.
        behavior: What acts, its own.
        noise: Where its noise stands in a step's.
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
        """Returns the policies' own actions of the given slots, [N, ...]."""
        if not self._record:
            self._record = self._behavior.allocate_fragment(1, len(starts))
        acts = np.zeros(len(starts), np.bool_)
        acts[slots] = True
        self._behavior.act(observations, noise[:, self._noise], self._record, 0, starts, acts)
        taken: NDArray[Any] = self._record["actions"][0, slots]
        return taken

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Is told what each slot was given, [B]."""
        self._behavior.take_rewards(rewards)

    def state(self) -> dict[str, Any]:
        """Returns its weights, and what it remembers from step to step."""
        return {
            "policy": self._member.policy,
            "weights": saved_weights(self._weights),
            "behavior": self._behavior.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what its `state` said of its behavior."""
        self._behavior.load_state(state)


class _ScriptPlayer:
    """A scripted opponent.

    Args:
        path: package.module:Name.
        space: The policies' own actions over the world's.
    """

    def __init__(self, path: str, space: ActionSpace) -> None:
        self._opponent = ScriptedOpponent(path)
        self._space = space

    def act(self, observations: Any, noise: Floats, starts: Flags, slots: list[int]) -> NDArray[Any]:
        """Returns the policies' own actions of the given slots, [N, ...]."""
        return self._space.from_env(np.asarray(self._opponent.decide(observations, noise[:, SCRIPT], slots)))
