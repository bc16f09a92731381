"""Array worlds, which step all agents of W multi-agent envs in batched NumPy, and their `VectorWorld` adapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple, NoReturn, Protocol

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rlrun.engine.data.tree import map_tree, named_leaves
from rlrun.engine.envs.env_config import WorldClock
from rlrun.engine.envs.env_watch import watched_env_call
from rlrun.engine.envs.episode_ledger import EpisodeLedger
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.lockstep_restore import restore_in_lockstep
from rlrun.engine.envs.spaces import Spaces, check_spaces, empty_batch
from rlrun.engine.envs.step_marks import ALL_SLOTS, StepMarks
from rlrun.engine.envs.vector_env import (
    BadReturn,
    Infos,
    close_or_warn,
    describe_positions,
    env_error,
    observation_hash,
)
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.vector_world import SlotRows, WorldRows

Tree = Any
Flags = NDArray[np.bool_]


class ArrayGroup(NamedTuple):
    """Group of the agents in a multi-agent env that have the same observation and action space.

    Attributes:
        num_agents: Maximum number of living agents of the group in each world, K.
        spaces: Observation and action space of each agent.
    """

    num_agents: int
    spaces: Spaces


@dataclass
class GroupRows:
    """Observations, rewards and episode ends of a group's K agents in W worlds; the next step may overwrite them.

    Attributes:
        observations: Array, or tree of arrays, [W, K, ...]; undefined where no agent acts and none has just ended.
        rewards: Rewards, [W, K] float64; 0 without an agent.
        terminateds: Whether an agent's episode terminated in the step, [W, K].
        truncateds: Whether an agent's episode was truncated in the step, [W, K].
        acts: Whether a living agent acts next, [W, K]; False where an agent has just ended.
    """

    observations: Tree
    rewards: NDArray[np.float64]
    terminateds: Flags
    truncateds: Flags
    acts: Flags


class ArrayStep(NamedTuple):
    """Result of one step of W batched multi-agent envs (worlds).

    Attributes:
        groups: Observations, rewards and episode ends, by name of the group of agents.
        ended: Whether a world's episode is over, [W]; all remaining agents of such a world are marked as ended too.
    """

    groups: Mapping[str, GroupRows]
    ended: Flags


class ArrayWorld(Protocol):
    """Interface of W multi-agent envs (worlds) that are stepped together, with arrays [W, K] for K agents in each.

    An agent keeps its index k during its episode. After its episode has ended, another agent may receive the index from
    the next step on. A world whose episode is over continues to be stepped with the others until its reset; the results
    of these steps are ignored.

    Attributes:
        num_worlds: Number of worlds, W.
        clock: Time axis of experience: one row per world step, or one row per agent's decision.
        groups: Groups of agents by name.
        state_space: Space of the global state, None if there is no state.
    """

    num_worlds: int
    clock: WorldClock
    groups: Mapping[str, ArrayGroup]
    state_space: gymnasium.spaces.Box | None

    def reset(self, worlds: Sequence[int], seeds: Sequence[int]) -> ArrayStep:
        """Resets some worlds to episodes that are deterministic functions of the seeds.

        Returns:
            Step result of all worlds. Reset worlds have rewards of 0 and no ends; other worlds are unchanged.
        """
        ...

    def step(self, actions: Mapping[str, Tree]) -> ArrayStep:
        """Takes a step in all worlds.

        Args:
            actions: Actions by group of agents, arrays or trees of arrays [W, K, ...]; ignored where no agent acts.
        """
        ...

    def state(self) -> NDArray[Any]:
        """Returns the global states of all W worlds, vectors of D numbers, [W, D], if there is a `state_space`."""
        ...

    def close(self) -> None:
        """Frees the worlds' resources."""
        ...


class ArrayVectorWorld:
    """Adapter from an `ArrayWorld` to a `VectorWorld`: each group of agents has one policy, and agent k is in slot k.

    An agent's id consists of its group and k, such as `pole_1`; later agents at index k have the same id.

    Args:
        world: The worlds.
        world_id: Name of the world in messages.
        policies: Policy of each group; groups cannot share a policy.
        seeds: Seeds of episodes, determined by the world's index and the episode's number.
        first_episodes: Index of the episode with which each world starts.

    Raises:
        UsageError: Two groups have the same policy, or one has none.
    """

    def __init__(
        self,
        world: ArrayWorld,
        world_id: str,
        policies: Mapping[str, str],
        seeds: EpisodeSeeds,
        first_episodes: Sequence[int] | None = None,
    ) -> None:
        if sorted(policies) != sorted(world.groups) or len(set(policies.values())) < len(policies):
            groups = ", ".join(sorted(world.groups))
            raise UsageError(
                f"env {world_id}: each group of agents ({groups}) needs its own policy, but the mapping is "
                f"{dict(policies)}"
            )
        self.num_worlds = world.num_worlds
        self.possible_agents: Sequence[str] = [
            f"{name}_{agent}" for name, group in world.groups.items() for agent in range(group.num_agents)
        ]
        self.clock = world.clock
        self.state_space = world.state_space
        self.seeds_episodes = self.replays = True
        self.slots: Mapping[str, int] = {
            policies[name]: world.num_worlds * group.num_agents for name, group in world.groups.items()
        }
        self.columns: Sequence[str] = ()
        self.spaces: Mapping[str, Spaces] = {policies[name]: group.spaces for name, group in world.groups.items()}
        self._world = world
        self._id = world_id
        self._seeds = seeds
        self._ledger = EpisodeLedger(seeds, world.num_worlds, first_episodes)
        self._lengths = np.zeros(world.num_worlds, np.int64)
        self._stepped, self._ended = np.zeros((2, world.num_worlds), np.bool_)
        self._awaiting: list[int] = []
        self._groups = {
            policies[name]: _GroupSlots(name, group.spaces.observation, group.num_agents, world.num_worlds)
            for name, group in world.groups.items()
        }

    def reset(self) -> WorldRows:
        """Starts the first episode of every world, with the episode's seed."""
        seeds = self._ledger.start_over()
        return self._begin(range(self.num_worlds), seeds)

    @watched_env_call(lambda own: own["self"]._where())
    def step(self, actions: Mapping[str, Tree]) -> WorldRows:
        """Steps all worlds; a world whose episode ended is reset instead (NEXT_STEP autoreset)."""
        chosen = {group.name: map_tree(group.by_world, actions[policy]) for policy, group in self._groups.items()}
        self._marks.slot[0] = ALL_SLOTS
        self._lengths += 1
        try:
            shown = self._world.step(chosen)
        except (Exception, SystemExit) as error:
            raise env_error(self._id, "step()", self._where(), error) from error
        self._stepped.fill(True)
        for group in self._groups.values():
            group.clear_starts()
        awaiting = self._awaiting
        if awaiting:
            shown = self._reset(awaiting, [self._ledger.begin_next(world) for world in awaiting])
        self._marks.rest()
        self._show("step()", shown)
        self._awaiting = np.flatnonzero(self._ended).tolist() if np.count_nonzero(self._ended) else []
        return self._rows()

    def owners(self, policy: str) -> Sequence[str]:
        """Returns the ids of the agents in the B slots of a policy, [B]; they are the same in all episodes."""
        return self._groups[policy].owners

    def places(self) -> list[EpisodePosition]:
        """Returns each world's current position: episode number, its seed, and the step within the episode."""
        return self._ledger.places(self._lengths.tolist())

    def restore(
        self,
        places: Sequence[EpisodePosition],
        actions: Sequence[Mapping[str, Tree]],
        hashes: Sequence[str],
        max_replay_s: float,
    ) -> tuple[WorldRows, list[bool]]:
        """Brings all worlds back to saved steps of their episodes by replaying actions in lockstep.

        See `VectorWorld.restore`.
        """
        joint = [{policy: taken[policy] for policy in sorted(self._groups)} for taken in actions]
        _, exact = restore_in_lockstep(_Lockstep(self), places, joint, hashes, max_replay_s)
        return self._rows(), exact

    def hashes(self) -> list[str]:
        """Returns a digest of each world's current observations."""
        shown = self.shown()
        return [observation_hash(map_tree(itemgetter(world), shown)) for world in range(self.num_worlds)]

    def render(self) -> NDArray[np.uint8] | None:
        """Returns None: array worlds are not rendered."""
        return None

    def close(self) -> None:
        """Closes the worlds."""
        close_or_warn(self._world.close, self._id, f"{self.num_worlds} worlds at once")

    def start_at(self, places: Mapping[int, EpisodePosition]) -> None:
        """Resets the given worlds, each to the start of a saved episode.

        Args:
            places: Saved position (episode, seed, step) by index of the world; the step is ignored.
        """
        for world, place in places.items():
            self._ledger.return_to(world, place)
        if places:
            self._begin(list(places), [place.seed for place in places.values()])

    def start_after(self, places: Mapping[int, EpisodePosition]) -> None:
        """Resets the given worlds, each to the episode after a saved one.

        Args:
            places: Saved position (episode, seed, step) by index of the world.
        """
        for world, place in places.items():
            self._ledger.return_to(world, place)
        self._begin(list(places), [self._ledger.begin_next(world) for world in places])

    def shown(self) -> Tree:
        """Returns the current observations by policy, arrays [W, K, ...] for K slots in W worlds.

        Empty slots hold zeros.
        """
        return {policy: group.shown() for policy, group in sorted(self._groups.items())}

    def _begin(self, worlds: Sequence[int], seeds: Sequence[int]) -> WorldRows:
        """Resets some worlds outside `step`."""
        shown = self._reset(worlds, seeds)
        self._marks.rest()
        self._show("reset()", shown)
        self._awaiting = [world for world in self._awaiting if world not in worlds]
        return self._rows()

    @watched_env_call(lambda own: own["self"]._where_reset(own["worlds"], own["seeds"]))
    def _reset(self, worlds: Sequence[int], seeds: Sequence[int]) -> ArrayStep:
        """Resets some worlds after freeing their slots."""
        self._marks.begin_together({world: self._ledger.place(world, 0) for world in worlds})
        try:
            shown = self._world.reset(worlds, seeds)
        except (Exception, SystemExit) as error:
            starts = all(self._ledger.place(world, 0).episode == 0 for world in worlds)
            raise env_error(self._id, "reset()", self._where_reset(worlds, seeds), error, starts=starts) from error
        begun = list(worlds)
        self._lengths[begun] = 0
        self._stepped[begun] = False
        for group in self._groups.values():
            group.clear(begun)
        return shown

    @cached_property
    def _marks(self) -> StepMarks:
        """Step marks, created with the first episode, so that worlds created only for their spaces write none."""
        return StepMarks(self._id, self._seeds, self.num_worlds, each="world")

    def _show(self, doing: str, shown: ArrayStep) -> None:
        """Validates a step result of the array world and copies it to the policies' slots.

        Raises:
            BadReturn: A part has an invalid type or shape.
        """
        names = {group.name for group in self._groups.values()}
        if not isinstance(shown, ArrayStep) or not names <= shown.groups.keys():
            self._refuse(doing, f"it must be an ArrayStep with the groups {', '.join(sorted(names))}")
        for group in self._groups.values():
            if reason := group.mismatch(shown.groups[group.name]):
                self._refuse(doing, f"group {group.name}: {reason}")
            group.show(shown.groups[group.name])
        if not isinstance(shown.ended, np.ndarray) or shown.ended.shape != self._ended.shape:
            self._refuse(doing, f"ended must be an array of shape {self._ended.shape}, not {_form(shown.ended)}")
        self._ended[:] = shown.ended

    def _refuse(self, doing: str, reason: str) -> NoReturn:
        raise BadReturn(f"env {self._id} returned an invalid result from {doing} ({self._where()}): {reason}")

    def _rows(self) -> WorldRows:
        return WorldRows(
            policies={policy: group.rows for policy, group in self._groups.items()},
            states=None if self.state_space is None else self._world.state(),
            stepped=self._stepped,
            ended=self._ended,
            infos={},
            missing_finals=0,
            dropped_rewards=sum(group.dropped_rewards for group in self._groups.values()),
        )

    def _where(self) -> str:
        return f"worker {self._seeds.worker_index}, {describe_positions('world', self.places())}"

    def _where_reset(self, worlds: Sequence[int], seeds: Sequence[int]) -> str:
        return f"worker {self._seeds.worker_index}, worlds {list(worlds)} with seeds {list(seeds)}"


class _GroupSlots:
    """Agent slots of one group's policy: their observations, rewards, ends and owners.

    Args:
        name: Name of the group.
        space: Observation space of the group's agents.
        num_agents: Number of slots per world, K.
        num_worlds: Number of worlds, W.

    Attributes:
        name: Name of the group.
        owners: Id of each slot's agent, [B].
        rows: Observations, rewards and ends of the slots.
        dropped_rewards: Rewards of the last step for agents that had ended.
    """

    rows: SlotRows

    def __init__(self, name: str, space: gymnasium.Space[Any], num_agents: int, num_worlds: int) -> None:
        self.name = name
        like = named_leaves(empty_batch(space, 1))
        self._expected = {
            path: ((num_worlds, num_agents, *leaf.shape[1:]), leaf.dtype.kind in "biu") for path, leaf in like
        }
        self.owners = [f"{name}_{agent}" for _ in range(num_worlds) for agent in range(num_agents)]
        self._shape = (num_worlds, num_agents)
        self._living, self._starts, self._ends, self._dead = np.zeros((4, num_worlds * num_agents), np.bool_)
        self.dropped_rewards = 0

    def by_world(self, leaf: Any) -> Any:
        """Reshapes a leaf [B, ...] of slots to worlds and agents, [W, K, ...]."""
        return leaf.reshape(*self._shape, *leaf.shape[1:])

    def mismatch(self, shown: GroupRows) -> str | None:
        """Returns the reason why the result of a step or reset violates the group's spaces; None if it is valid."""
        flags = {"terminateds": shown.terminateds, "truncateds": shown.truncateds, "acts": shown.acts}
        for name, array in {"rewards": shown.rewards, **flags}.items():
            if not isinstance(array, np.ndarray) or array.shape != self._shape:
                return f"{name} must be an array of shape {self._shape}, not {_form(array)}"
            if array.dtype.kind not in ("biu" if name in flags else "biuf"):
                return f"{name} must contain {'True or False' if name in flags else 'numbers'}, not {_form(array)}"
        found = dict(named_leaves(shown.observations))
        if found.keys() != self._expected.keys():
            return f"the observations contain {sorted(found)}, but their space has {sorted(self._expected)}"
        for path, (shape, is_whole) in self._expected.items():
            leaf = found[path]
            if not isinstance(leaf, np.ndarray) or leaf.shape != shape or (is_whole and leaf.dtype.kind not in "biu"):
                at, numbers = f" at '{path}'" if path else "", "whole numbers" if is_whole else "numbers"
                return f"the observations{at} must be an array of {numbers} of shape {shape}, not {_form(leaf)}"
        return None

    def clear(self, worlds: list[int]) -> None:
        """Frees the slots of some worlds."""
        self._living.reshape(self._shape)[worlds] = False
        self._starts.reshape(self._shape)[worlds] = False
        self._dead.reshape(self._shape)[worlds] = False

    def clear_starts(self) -> None:
        """Clears the flags of first observations before the next step."""
        self._starts.fill(False)

    def show(self, shown: GroupRows) -> None:
        """Copies a step's or reset's result to the slots; marks agents that began since `clear_starts`."""
        acts, terminateds = shown.acts.reshape(-1), shown.terminateds.reshape(-1)
        truncateds = shown.truncateds.reshape(-1)
        self._starts |= acts > self._living
        np.logical_or(self._living, acts, self._living)
        np.logical_or(terminateds, truncateds, self._ends)
        rewards = self._credit_rewards(shown.rewards.reshape(-1), acts)
        self._dead |= self._ends & self._living
        np.greater(self._living, self._ends, self._living)
        self.rows = SlotRows(
            observations=map_tree(_by_slot, shown.observations),
            acts=acts,
            starts=self._starts,
            rewards=rewards,
            terminateds=terminateds,
            truncateds=truncateds,
            living=self._living,
        )

    def _credit_rewards(self, rewards: NDArray[Any], acts: Flags) -> NDArray[Any]:
        """Returns the rewards [B] of living agents; counts the discarded rewards of agents that have ended."""
        self._dead &= ~acts
        dropped = self._dead & (rewards != 0)
        self.dropped_rewards = int(np.count_nonzero(dropped))
        return np.where(dropped, 0.0, rewards) if self.dropped_rewards else rewards

    def shown(self) -> Tree:
        """Returns the observations by world, arrays [W, K, ...]; zeros where no agent acts or has just ended."""
        visible = self.rows.acts | self._ends

        def of_visible(leaf: NDArray[Any]) -> Any:
            return self.by_world(np.where(visible.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, np.zeros_like(leaf)))

        return {
            "acts": self.by_world(self.rows.acts).copy(),
            "living": self.by_world(self._living).copy(),
            "observations": map_tree(of_visible, self.rows.observations),
        }


class _Lockstep:
    """Adapter from `ArrayVectorWorld` to the interface of `restore_in_lockstep`: each world is an env slot.

    Args:
        worlds: The adapted vector world.
    """

    def __init__(self, worlds: ArrayVectorWorld) -> None:
        self._worlds = worlds
        self.num_envs = worlds.num_worlds
        self.action_space = gymnasium.spaces.Dict(
            {
                policy: batch_space(spaces.action, worlds.slots[policy] // worlds.num_worlds)
                for policy, spaces in worlds.spaces.items()
            }
        )
        self._never = np.zeros(worlds.num_worlds, np.bool_)

    def step(self, actions: Tree) -> tuple[Tree, NDArray[np.float64], Flags, Flags, Infos]:
        """Steps all worlds; ends of worlds' episodes are returned as terminations."""
        by_slot = {policy: map_tree(_by_slot, taken) for policy, taken in actions.items()}
        rows = self._worlds.step(by_slot)
        return self._worlds.shown(), np.zeros(self.num_envs), rows.ended, self._never, {}

    def start_at(self, places: dict[int, EpisodePosition]) -> Tree:
        """Resets worlds to the start of the given episodes."""
        self._worlds.start_at(places)
        return self._worlds.shown()

    def start_after(self, places: dict[int, EpisodePosition]) -> Tree:
        """Resets worlds to the start of the episodes after the given ones."""
        self._worlds.start_after(places)
        return self._worlds.shown()


def _form(value: Any) -> str:
    """Describes the shape or type of a value that should be an array."""
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def _by_slot(leaf: Any) -> Any:
    """Reshapes a leaf [W, K, ...] of worlds and agents to slots, [B, ...] with B = W * K."""
    return leaf.reshape(-1, *leaf.shape[2:])


def array_vector_world(
    world_id: str,
    world: ArrayWorld,
    seeds: EpisodeSeeds,
    mapping: PolicyMapping,
    slots: Mapping[str, int],
    first_episodes: Sequence[int] | None,
) -> ArrayVectorWorld:
    """Creates the `VectorWorld` for an `ArrayWorld`; each group of agents has one policy, and one slot per agent.

    Args:
        world_id: Name of the world in messages.
        world: The batched worlds.
        seeds: Seeds of episodes, determined by the world's index and the episode's number.
        mapping: Mapping from agents to policies.
        slots: Number of slots (simultaneous agents) per world, by policy, if the user set it; must equal the number of
            the group's agents.
        first_episodes: Index of the episode with which each world starts; 0 for all unless given.

    Raises:
        UsageError: The agents of a group have several policies, or a policy's slots and agents differ in number.
    """
    policies = {}
    for group, (agents, spaces) in world.groups.items():
        check_spaces(f"{world_id}, group '{group}'", *spaces)
        found = {mapping.policy_of(f"{group}_{agent}", 0) for agent in range(agents)}
        if len(found) > 1:
            raise UsageError(
                f"env {world_id}: the agents of the group {group} must belong to one policy, not to "
                f"{', '.join(sorted(found))}"
            )
        policies[group] = found.pop()
        if slots.get(policies[group], agents) != agents:
            raise UsageError(f"policies.{policies[group]}.slots must be {agents}, the agents of the group {group}")
    return ArrayVectorWorld(world, world_id, policies, seeds, first_episodes)
