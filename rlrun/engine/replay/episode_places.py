"""Places of a replay ring's steps in their episodes (NumPy)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.replay.ring import ReplayRing
from rlrun.engine.replay.stores import Indices
from rlrun.engine.replay.streams import Inserted

_COLUMNS = ("episode", "position", "lengths")


class EpisodePlaces:
    """Number and position of the episode of each step in a replay ring, and the lengths of episodes.

    Episodes of an env slot are numbered from 1. An episode takes at least one row, so those in the ring have different
    numbers modulo its rows, by which their lengths are found.

    Args:
        ring: The ring buffer.
    """

    def __init__(self, ring: ReplayRing) -> None:
        self._ring = ring
        self._columns: dict[str, NDArray[np.uint32]] = {}

    @property
    def num_bytes(self) -> int:
        """Allocated bytes."""
        return sum(column.nbytes for column in self._columns.values())

    def insert(self, inserted: Inserted) -> None:
        """Records the places of inserted steps; a step begins an episode if no step is in the row before it."""
        ring, worker, slots, rows = self._ring, inserted.worker, inserted.slots, inserted.rows[:-1]
        self._allocate()
        episode, position, lengths = (self._columns[name][worker] for name in _COLUMNS)
        numbers = np.arange(ring.num_slots)[slots]
        before = (rows[0] - 1) % ring.rows
        places = ring.streams.numbered(worker, np.append(before, rows)[:, None], numbers)
        valid = ring.read(places, ("valid",))["valid"]
        starts = valid[1:] & ~valid[:-1]
        steps = np.arange(len(rows))[:, None]
        length_before = np.where(valid[0], position[before, slots].astype(np.int64) + 1, 0)
        own = episode[before, slots] + np.cumsum(starts, 0)
        since = steps - np.maximum.accumulate(np.where(starts, steps, -length_before), 0)
        episode[rows, slots], position[rows, slots] = own, since
        t, slot = valid[1:].nonzero()  # in the order of steps: the last length of an episode counts
        lengths[own[t, slot] % ring.rows, numbers[slot]] = since[t, slot] + 1

    def around(self, indices: Indices) -> tuple[Indices, Indices]:
        """Readable steps of the same episode before the steps at indices [N], and rows after them up to its end.

        The row after an episode's last step holds its final observation, so there is at least one row after a step.
        """
        ring = self._ring
        episode, position, lengths = (self._columns[name].reshape(-1) for name in _COLUMNS)
        streams = ring.streams
        first_row = indices // (ring.rows * ring.num_slots) * ring.rows
        ends = (first_row + episode[indices] % ring.rows) * ring.num_slots + indices % ring.num_slots
        own = position[indices].astype(np.int64)
        return np.minimum(own, streams.rows_behind(indices)), lengths[ends].astype(np.int64) - own

    def _allocate(self) -> None:
        if not self._columns:
            shape = (self._ring.num_workers, self._ring.rows, self._ring.num_slots)
            self._columns = {name: np.zeros(shape, np.uint32) for name in _COLUMNS}

    def state(self) -> dict[str, Any]:
        """State dict: copies of the rows in use."""
        if not self._columns:
            return {}
        rows = self._ring.streams.num_used_rows
        return {name: column[:, :rows].copy() for name, column in self._columns.items()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores `state()`; the ring was restored before."""
        if not state:
            return
        self._allocate()
        for name, saved in state.items():
            self._columns[name][:, : saved.shape[1]] = saved
