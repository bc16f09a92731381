"""Slots for one policy's agents in W worlds: assignment of agents, and their observations, rewards and ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.spaces import Spaces, empty_batch, row_writer
from rlrun.engine.envs.vector_env import observation_hash
from rlrun.engine.worlds.vector_world import SlotRows


@dataclass(slots=True)
class Seat:
    """Slot that a living agent occupies, with direct references to the arrays that each step writes.

    Attributes:
        policy: Name of the policy.
        index: Index of the slot within its world.
        slot: Index of the slot among the policy's B slots in all worlds.
        write: Function that writes an observation [...] to a slot's row: `write(slot, observation)`.
        acts: Flags of the slots that act next, [B].
        rewards: Rewards of the slots' agents in the step, [B].
    """

    policy: str
    index: int
    slot: int
    write: Callable[[int, Any], None]
    acts: memoryview[bool]
    rewards: memoryview[float]


class PolicySlots:
    """Assigns one policy's agents to slots (B = W * K in W worlds, ordered by world), and holds the agents' data.

    Args:
        policy: Name of the policy.
        example: Id of one of the policy's agents.
        spaces: Observation and action space of the policy's agents.
        num_worlds: Number of worlds, W.
        per_world: Number of slots per world, K.
        homes: Preferred slot index of each agent, used if that slot is free.
        columns: Names of info entries that are recorded as columns.

    Attributes:
        example: Id of one of the policy's agents.
        spaces: Observation and action space of the policy's agents.
        per_world: Number of slots per world, K.
        rows: Observations, rewards and episode ends, by slot.
        owners: Id of each slot's current or latest agent, [B]; "" before a slot's first agent.
    """

    def __init__(
        self,
        policy: str,
        example: str,
        spaces: Spaces,
        num_worlds: int,
        per_world: int,
        homes: Mapping[str, int],
        columns: Iterable[str] = (),
    ) -> None:
        size = num_worlds * per_world
        self.example = example
        self.spaces = spaces
        self.per_world = per_world
        self.rows = SlotRows(
            observations=empty_batch(spaces.observation, size),
            acts=np.zeros(size, np.bool_),
            starts=np.zeros(size, np.bool_),
            rewards=np.zeros(size),
            terminateds=np.zeros(size, np.bool_),
            truncateds=np.zeros(size, np.bool_),
            living=np.zeros(size, np.bool_),
            columns={name: np.zeros(size) for name in columns},
        )
        self.owners = [""] * size
        self._policy = policy
        self._home_slots = homes
        self._free = [list(range(per_world)) for _ in range(num_worlds)]
        self._write = row_writer(spaces.observation, self.rows.observations)
        # Writing single numbers to a memoryview takes half the time of writing to the array.
        self._acts = self.rows.acts.data.cast("B").cast("?")
        self._rewards = self.rows.rewards.data.cast("B").cast("d")

    def of_world(self, world: int) -> slice:
        """Returns the slots of one world among the policy's B slots, as a slice."""
        return slice(world * self.per_world, (world + 1) * self.per_world)

    def take(self, world: int, agent: str) -> Seat | None:
        """Assigns an agent its preferred slot in a world, or the lowest free slot; returns None if all are taken."""
        free = self._free[world]
        if not free:
            return None
        index = self._home_slots.get(agent, free[0])
        if index == free[0] or index not in free:
            index = heappop(free)
        else:
            free.remove(index)
            heapify(free)
        slot = world * self.per_world + index
        self.owners[slot] = agent
        self.rows.starts[slot] = self.rows.living[slot] = True
        return Seat(self._policy, index, slot, self._write, self._acts, self._rewards)

    def end(self, slot: int, terminated: bool, truncated: bool) -> None:
        """Marks the end of an agent's episode; its slot stays taken until `free` is called."""
        rows = self.rows
        rows.terminateds[slot], rows.truncateds[slot] = terminated, truncated
        rows.acts[slot] = rows.starts[slot] = rows.living[slot] = False

    def free(self, world: int, index: int) -> None:
        """Frees a slot of a world for the next agent."""
        heappush(self._free[world], index)

    def clear(self, world: int) -> None:
        """Frees all slots of a world."""
        self._free[world] = list(range(self.per_world))
        self.rows.living[self.of_world(world)] = False
        self.forget_step(self.of_world(world))

    def forget_step(self, slots: slice) -> None:
        """Resets all data of the last step in some slots: acting, start and end flags, rewards and info columns."""
        rows = self.rows
        rows.acts[slots] = False
        rows.starts[slots] = False
        self.clear_slots(slots)

    def clear_slots(self, slots: slice) -> None:
        """Sets rewards, info columns and end flags of some slots to 0 or False."""
        rows = self.rows
        rows.rewards[slots] = 0.0
        for column in rows.columns.values():
            column[slots] = 0.0
        rows.terminateds[slots] = False
        rows.truncateds[slots] = False

    def digest(self, slot: int) -> str:
        """Returns a digest of a slot's agent id, flags and observation, to check whether a restore is exact."""
        row = map_tree(lambda leaf: leaf[slot], self.rows.observations)
        rows = self.rows
        index = slot % self.per_world
        return f"{index}:{self.owners[slot]}:{rows.acts[slot]}:{rows.living[slot]}:{observation_hash(row)}"
