"""The agent slots of one policy in W worlds: which are free, who owns the others, and what they show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from rlrun.data.tree import map_tree
from rlrun.envs.spaces import Spaces, empty_batch, row_writer
from rlrun.envs.vector_env import observation_hash
from rlrun.worlds.vector_world import SlotRows


@dataclass(slots=True)
class Seat:
    """A living agent's slot, with what is done there at every step at hand.

    Attributes:
        policy: Name of the policy.
        index: Number of the slot in its world, below K.
        slot: Number of the slot among those of all worlds, below B.
        write: Writes an observation [...] into a row: `write(slot, observation)`.
        acts: The policy's `SlotRows.acts`.
        rewards: The policy's `SlotRows.rewards`.
    """

    policy: str
    index: int
    slot: int
    write: Callable[[int, Any], None]
    acts: memoryview[bool]
    rewards: memoryview[float]


class PolicySlots:
    """B = W * K slots of a policy, those of world 0 first.

    Args:
        policy: Name of the policy.
        example: One of its agents.
        spaces: Observation and action space of its agents.
        num_worlds: W.
        per_world: K.
        homes: Numbers of the slots that agents are given as long as they are free, by agent.
        columns: Names of the numbers that are read from agents' infos.

    Attributes:
        example: One of the policy's agents.
        spaces: Observation and action space of the policy's agents.
        per_world: K.
        rows: What the slots show.
        owners: Who owns each slot or owned it last, [B]; "" before the first.
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
        self._homes = homes
        self._free = [list(range(per_world)) for _ in range(num_worlds)]
        self._write = row_writer(spaces.observation, self.rows.observations)
        # Single numbers are written into a memoryview in half the time that they take through the array.
        self._acts = self.rows.acts.data.cast("B").cast("?")
        self._rewards = self.rows.rewards.data.cast("B").cast("d")

    def of_world(self, world: int) -> slice:
        """Returns which of the slots are in a world."""
        return slice(world * self.per_world, (world + 1) * self.per_world)

    def take(self, world: int, agent: str) -> Seat | None:
        """Gives an agent its home in a world, or the lowest slot where that is not free; None if none is free."""
        free = self._free[world]
        if not free:
            return None
        index = self._homes.get(agent, free[0])
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
        """Notes that the episode of a slot's agent ended; the slot is its until it is set free."""
        rows = self.rows
        rows.terminateds[slot], rows.truncateds[slot] = terminated, truncated
        rows.acts[slot] = rows.starts[slot] = rows.living[slot] = False

    def free(self, world: int, index: int) -> None:
        """Sets a slot of a world free for the next agent."""
        heappush(self._free[world], index)

    def clear(self, world: int) -> None:
        """Sets all slots of a world free, whatever they show."""
        self._free[world] = list(range(self.per_world))
        self.rows.living[self.of_world(world)] = False
        self.forget_step(self.of_world(world))

    def forget_step(self, slots: slice) -> None:
        """Makes slots show no step: no rewards, no ends, nobody who acts."""
        rows = self.rows
        rows.acts[slots] = False
        rows.starts[slots] = False
        self.forget_news(slots)

    def forget_news(self, slots: slice) -> None:
        """Makes slots show no rewards, no numbers of infos and no ends."""
        rows = self.rows
        rows.rewards[slots] = 0.0
        for column in rows.columns.values():
            column[slots] = 0.0
        rows.terminateds[slots] = False
        rows.truncateds[slots] = False

    def digest(self, slot: int) -> str:
        """Returns a digest of who is in a slot, whether it acts, and what it sees."""
        row = map_tree(lambda leaf: leaf[slot], self.rows.observations)
        rows = self.rows
        index = slot % self.per_world
        return f"{index}:{self.owners[slot]}:{rows.acts[slot]}:{rows.living[slot]}:{observation_hash(row)}"
