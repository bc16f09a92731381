"""Sequential backend for multi-agent envs with dicts by agent id: steps them in a Python loop in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import ACTION_MASK, has_action_mask, masked_choices
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.envs.env_config import WorldClock
from rlrun.engine.envs.episode_ledger import EpisodeLedger
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.spaces import Spaces, action_mismatch, row_splitter
from rlrun.engine.envs.step_marks import NO_SLOT, StepMarks
from rlrun.engine.envs.vector_env import EnvError, Tree, first_not_finite
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.policy_slots import PolicySlots
from rlrun.engine.worlds.running_world import RunningWorld
from rlrun.engine.worlds.vector_world import WorldRows
from rlrun.engine.worlds.world import World


class LoopWorlds:
    """`VectorWorld` that steps W multi-agent envs (worlds) in a Python loop, with observations in preallocated arrays.

    Return values are fully validated at each reset and at the first step after `reset` or `restore`. Later steps
    are checked only for rewards, for the shape and dtype of observations, and for the type of each termination or
    truncation flag that is true.

    A reward that an agent receives before its first observation is credited in the step of that observation. A reward
    after the agent's end is counted but discarded, since it does not belong to a later agent with the same id. An agent
    whose first observation is its final one never acts, and receives no slot. Each possible agent has a home slot, used
    whenever that slot is free; other agents receive the lowest free slot.

    Args:
        world_id: Name of the worlds in messages.
        worlds: The W identical worlds.
        seeds: Seeds of episodes, determined by the world's index and the episode's number.
        mapping: Mapping from agents to policies.
        spaces: For each policy, the id of one of its agents, and the spaces that all its agents share.
        slots: Number of slots (simultaneous agents) per world by policy, K.
        max_episode_steps: Steps after which all living agents of a world are truncated; None for no limit.
        first_episodes: Index of the episode with which each world starts; 0 for all unless given.
        columns: Names of numeric entries in agents' infos that are recorded as columns of the experience.
        with_states: Whether global states are read after each step.
    """

    def __init__(
        self,
        world_id: str,
        worlds: Sequence[World],
        seeds: EpisodeSeeds,
        mapping: PolicyMapping,
        spaces: Mapping[str, tuple[str, Spaces]],
        slots: Mapping[str, int],
        max_episode_steps: int | None = None,
        first_episodes: Sequence[int] | None = None,
        columns: Sequence[str] = (),
        *,
        with_states: bool = False,
    ) -> None:
        self.columns: Sequence[str] = tuple(columns)
        self.num_worlds = len(worlds)
        self.possible_agents: Sequence[str] = tuple(worlds[0].possible_agents)
        self.clock: WorldClock = worlds[0].clock
        self.seeds_episodes = True
        self.replays = worlds[0].replays
        self.state_space = worlds[0].state_space
        self.spaces: Mapping[str, Spaces] = {policy: of_policy for policy, (_, of_policy) in spaces.items()}
        self.slots: Mapping[str, int] = {policy: self.num_worlds * slots[policy] for policy in spaces}
        self._id = world_id
        self._seeds = seeds
        homes = _home_slots(self.possible_agents, mapping)
        self._policies = {
            policy: PolicySlots(
                policy, agent, of_policy, self.num_worlds, slots[policy], homes.get(policy, {}), columns
            )
            for policy, (agent, of_policy) in spaces.items()
        }
        self._copies = {policy: _row_copier(of_policy.action) for policy, of_policy in self.spaces.items()}
        self._ledger = EpisodeLedger(seeds, self.num_worlds, first_episodes)
        self._worlds = [
            RunningWorld(
                world_id, world, number, seeds.worker_index, self._policies, mapping, self.clock, max_episode_steps
            )
            for number, world in enumerate(worlds)
        ]
        self._checks = SlotChecks(world_id, self._worlds, self._policies)
        space = self.state_space
        self._states = (
            None if space is None or not with_states else np.zeros((self.num_worlds, *space.shape), space.dtype)
        )
        self._rows = {policy: slots.rows for policy, slots in self._policies.items()}
        self._unchecked = True

    def reset(self) -> WorldRows:
        """Starts the first episode of every world, with the episode's seed."""
        self._ledger.start_over()
        for number in range(self.num_worlds):
            self._begin(number, self._ledger.place(number, 0))
            self._write_state(number)
        self._marks.rest()
        self._checks.masks()
        self._unchecked = True
        return self._shown(stepped=np.zeros(self.num_worlds, np.bool_))

    def step(self, actions: Mapping[str, Tree]) -> WorldRows:
        """Steps all worlds; a world whose episode ended is reset instead (NEXT_STEP autoreset)."""
        closely = self._unchecked
        if closely:
            self._checks.actions(actions)
        self._unchecked = False
        rows = {policy: copy(actions[policy]) for policy, copy in self._copies.items()}
        stepped = np.ones(self.num_worlds, np.bool_)
        for slots in self._policies.values():
            slots.forget_step(slice(None))
        mark = self._marks.slot
        for number, world in enumerate(self._worlds):
            mark[0] = number
            if world.awaiting:
                self._ledger.begin_next(number)
                self._begin(number, self._ledger.place(number, 0))
                stepped[number] = False
            else:
                world.step(
                    {policy: rows[policy][slots.of_world(number)] for policy, slots in self._policies.items()}, closely
                )
            self._write_state(number)
        mark[0] = NO_SLOT
        self._checks.rewards()
        self._checks.masks()
        return self._shown(stepped)

    def owners(self, policy: str) -> Sequence[str]:
        """Returns the id of the current or latest agent in each of a policy's B slots, [B].

        The id is "" if a slot has had no agent yet.
        """
        return self._policies[policy].owners

    def places(self) -> list[EpisodePosition]:
        """Returns each world's current position: episode number, its seed, and the step within the episode."""
        return [world.place for world in self._worlds]

    def restore(
        self,
        places: Sequence[EpisodePosition],
        actions: Sequence[Mapping[str, Tree]],
        hashes: Sequence[str],
        max_replay_s: float,
    ) -> tuple[WorldRows, list[bool]]:
        """Brings the worlds back, one by one, to saved steps of their episodes by replaying actions.

        See `VectorWorld.restore`.

        Rewards, ends and infos of the replayed steps are not returned. Worlds whose actions must not be replayed
        (`World.replays`) begin new episodes; this counts as exact only if no episode was running.
        """
        deadline = time.monotonic() + max_replay_s
        exact = []
        for number in range(self.num_worlds):
            self._ledger.return_to(number, places[number])
            self._begin(number, places[number])
            exact.append(self._replay(number, places[number], actions[number], hashes[number], deadline))
            if not exact[-1]:
                self._ledger.begin_next(number)
                self._begin(number, self._ledger.place(number, 0))
            self._write_state(number)
        self._marks.rest()
        for slots in self._policies.values():
            slots.clear_slots(slice(None))
        self._unchecked = True
        rows = self._shown(stepped=np.zeros(self.num_worlds, np.bool_))
        rows.ended[:], rows.infos, rows.missing_finals, rows.dropped_rewards = False, {}, 0, 0
        return rows, exact

    def hashes(self) -> list[str]:
        """Returns a digest of each world's current state: agents in slots, which of them act, and observations."""
        return [world.digest() for world in self._worlds]

    def render(self) -> NDArray[np.uint8] | None:
        """Renders the first world as an RGB image [height, width, 3]; None without rendering."""
        return self._worlds[0].render()

    def close(self) -> None:
        """Closes the worlds."""
        for world in self._worlds:
            world.close()

    @cached_property
    def _marks(self) -> StepMarks:
        """Step marks, created with the first episode, so that worlds created only for their spaces write none."""
        return StepMarks(self._id, self._seeds, self.num_worlds, each="world")

    def _begin(self, number: int, place: EpisodePosition) -> None:
        """Resets a world to the ledger's current episode, given as a place."""
        self._marks.begin(number, place.episode, place.seed)
        self._worlds[number].reset(place)

    def _replay(
        self, number: int, place: EpisodePosition, actions: Mapping[str, Tree], saved_hash: str, deadline: float
    ) -> bool:
        """Replays a world's actions after its reset; returns whether the state equals the recorded one."""
        world = self._worlds[number]
        if not self.replays:
            return world.digest() == saved_hash
        columns = {policy: map_tree(np.asarray, actions[policy]) for policy in self._policies}
        if any(len(leaf) != place.length for leaf in leaves(columns)):
            return False
        for t in range(place.length):
            if world.awaiting or time.monotonic() > deadline:
                return False
            for slots in self._policies.values():
                slots.forget_step(slots.of_world(number))
            rows = {
                policy: copy(map_tree(lambda leaf, t=t: leaf[t], columns[policy]))
                for policy, copy in self._copies.items()
            }
            world.step(rows, closely=False)
        return world.digest() == saved_hash

    def _write_state(self, number: int) -> None:
        if self._states is not None:
            self._states[number] = self._worlds[number].state()

    def _shown(self, stepped: NDArray[np.bool_]) -> WorldRows:
        infos: dict[str, dict[int, Mapping[str, Any]]] = {}
        for world in self._worlds:
            for policy, by_slot in world.infos.items():
                infos.setdefault(policy, {}).update(by_slot)
        return WorldRows(
            policies=self._rows,
            states=self._states,
            stepped=stepped,
            ended=np.array([world.awaiting for world in self._worlds]),
            infos=infos,
            missing_finals=sum(world.missing_finals for world in self._worlds),
            dropped_rewards=sum(world.dropped_rewards for world in self._worlds),
        )


def _home_slots(agents: Sequence[str], mapping: PolicyMapping) -> Mapping[str, Mapping[str, int]]:
    """Returns each policy's home slots by agent id; empty if the mapping changes between episodes."""
    seatings = mapping.seatings(agents)
    if len(seatings) > 1:
        return {}
    return {policy: {agent: slot for slot, agent in enumerate(own)} for policy, own in seatings[0].items()}


def _row_copier(space: gymnasium.Space[Any]) -> Callable[[Tree], Any]:
    """Creates a function that copies a batch of actions, arrays [B, ...], into a sequence of rows.

    Rows of a plain array are created on access, since often only a few slots act.
    """
    if isinstance(space, gymnasium.spaces.Dict | gymnasium.spaces.Tuple):
        split = row_splitter(space)
        return lambda actions: list(split(actions))
    return np.array


class SlotChecks:
    """Validator that checks actions, rewards and action masks of all agents at once, cheaper than one check per agent.

    Args:
        world_id: Name of the worlds in messages.
        worlds: The running worlds, for error messages that name the world at fault.
        policies: Slots (arrays that hold agents' observations and rewards) by policy.
    """

    def __init__(self, world_id: str, worlds: Sequence[RunningWorld], policies: Mapping[str, PolicySlots]) -> None:
        self._id = world_id
        self._worlds = worlds
        self._policies = policies
        self._choices = {
            policy: np.cumsum([0, *masked_choices(slots.spaces.action)[:-1]])
            for policy, slots in policies.items()
            if has_action_mask(slots.spaces.observation)
        }

    def actions(self, actions: Mapping[str, Tree]) -> None:
        """Validates the actions of the slots that act, arrays [B, ...] by policy.

        Raises:
            EnvError: An action is not in the policy's action space.
        """
        for policy, slots in self._policies.items():
            acts = slots.rows.acts
            acting = map_tree(lambda leaf, acts=acts: np.asarray(leaf)[acts], actions[policy])
            if reason := action_mismatch(slots.spaces.action, acting, int(acts.sum())):
                raise EnvError(f"env {self._id}: invalid actions of policy {policy}: {reason}")

    def rewards(self) -> None:
        """Validates that rewards are finite.

        Raises:
            EnvError: A reward is NaN or infinite.
        """
        for slots in self._policies.values():
            if (bad := first_not_finite(slots.rows.rewards)) is not None:
                (slot,) = bad
                self._refuse(slots, slot, f"the reward must be a finite number, not {slots.rows.rewards[slot]}")

    def masks(self) -> None:
        """Validates that the action mask of each agent that acts next allows some action.

        Masks of final observations may be all False.

        Raises:
            EnvError: A mask allows no action.
        """
        for policy, firsts in self._choices.items():
            slots = self._policies[policy]
            allowed = np.logical_or.reduceat(slots.rows.observations[ACTION_MASK], firsts, axis=1).all(1)
            if not (allowed | ~slots.rows.acts).all():
                slot = int(np.flatnonzero(slots.rows.acts & ~allowed)[0])
                self._refuse(
                    slots,
                    slot,
                    f"{ACTION_MASK} allows no action. The mask must allow at least one action of each choice, "
                    "or the env must end the agent's episode",
                )

    def _refuse(self, slots: PolicySlots, slot: int, reason: str) -> NoReturn:
        self._worlds[slot // slots.per_world].refuse(slots.owners[slot], reason)
