"""Flat indices of the entries of a replay buffer, and the write positions of its env slots (NumPy)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.replay.stores import Indices


@dataclass(slots=True)
class Cursor:
    """Write position in a replay buffer, shared by a worker's env slots that have received the same number of rows.

    Attributes:
        slots: Env slots that share this position.
        head: Index of the newest row, which holds the last observation and no step yet.
        filled: Number of rows written before the head, at most the number of rows in the buffer.
        begun: Whether any row has been written.
    """

    slots: slice
    head: int = 0
    filled: int = 0
    begun: bool = False


@dataclass(slots=True)  # created for each fragment; a frozen instance would take three times as long
class Inserted:
    """Result of storing rows in a replay buffer: which entries are new, overwritten, or can now be sampled.

    Attributes:
        streams: Converts rows of the ring buffer to flat indices.
        worker: Index of the worker in the buffer, from 0.
        slots: Env slots that received rows.
        steps: Indices of the T rows of the fragment that were inserted.
        head: First row of the ring buffer whose old content is lost.
        first: Row of the ring buffer that holds the first inserted observation.
        length: Number of inserted steps, T.
        num_lost: Number of rows of the ring buffer whose old content is overwritten or no longer readable.
        overwritten: Indices that can no longer be sampled.
        ready: Indices that have become available for sampling.
    """

    streams: Streams
    worker: int
    slots: slice
    steps: slice | Indices
    head: int
    first: int
    length: int
    num_lost: int
    overwritten: Indices
    ready: Indices

    @property
    def rows(self) -> Indices:
        """Rows of the ring buffer that hold the inserted observations, [T + 1]; the last one holds no step yet."""
        return self.streams.row_numbers(self.first, self.length + 1)

    @property
    def lost(self) -> Indices:
        """Rows of the ring buffer whose old content is overwritten or no longer readable, in write order.

        While the buffer is still filling up, these rows were empty before.
        """
        return self.streams.row_numbers(self.head, self.num_lost)


class Streams:
    """Converts workers, rows and env slots of a replay buffer to flat indices, and holds the slots' write positions.

    The steps of an env slot fill the rows in order, and wrap around after the last row. The slots of a worker share a
    write position until `part` separates them.

    Args:
        num_workers: Number of workers.
        rows: Number of rows per worker.
        num_slots: Number of env slots per worker.
        reach: Number of preceding rows that are needed to read a row, e.g. to rebuild a frame stack.

    Attributes:
        shared: By worker, the write position that all of its env slots share; None once they have separate ones.
        num_written: Number of entries that have been written, if there is only one worker; their indices are 0 to
            `num_written` - 1.
    """

    def __init__(self, num_workers: int, rows: int, num_slots: int, reach: int) -> None:
        self.num_workers = num_workers
        self.rows = rows
        self.num_slots = num_slots
        self._reach = reach
        self._cursors = [[Cursor(slice(0, num_slots))] for _ in range(num_workers)]
        self.shared: list[Cursor | None] = [own[0] for own in self._cursors]
        self._most_filled = [0] * num_workers
        self.num_written = 0

    @property
    def num_indices(self) -> int:
        """Total number of entries: workers * rows * env slots."""
        return self.num_workers * self.rows * self.num_slots

    def each(self, worker: int) -> list[Cursor]:
        """Returns a worker's write positions: a single one for all env slots, or one per slot."""
        return self._cursors[worker]

    def part(self, worker: int) -> None:
        """Gives each env slot of a worker a separate write position, initially equal to the one they shared."""
        (shared,) = self._cursors[worker]
        self.shared[worker] = None
        self._cursors[worker] = [replace(shared, slots=slice(slot, slot + 1)) for slot in range(self.num_slots)]

    def advance(self, worker: int, cursor: Cursor, number: int) -> None:
        """Moves a write position forward by the number of newly written rows."""
        cursor.head = (cursor.head + number) % self.rows
        cursor.begun = True
        if cursor.filled < self.rows:
            filled = cursor.filled + number
            cursor.filled = filled if filled < self.rows else self.rows
            if cursor.filled > self._most_filled[worker]:
                self._most_filled[worker] = cursor.filled
                self.num_written = self._most_filled[0] * self.num_slots

    def span(self, first: int, number: int) -> slice | Indices:
        """Returns an index for consecutive rows from `first` on: a slice, or an array if the rows wrap around."""
        return slice(first, first + number) if first + number <= self.rows else self.row_numbers(first, number)

    def row_numbers(self, first: int, number: int) -> Indices:
        """Returns the indices of `number` consecutive rows from `first` on, which wrap around after the last row."""
        numbers: Indices = np.arange(first, first + number)
        return numbers if first + number <= self.rows else numbers % self.rows

    def numbered(self, worker: int, rows: int | Indices, slots: Indices) -> Indices:
        """Returns the flat indices of a worker's entries, given rows and env slots (broadcast against each other)."""
        indices: Indices = (worker * self.rows + rows) * self.num_slots + slots
        return indices

    def heads(self, worker: int, cursor: Cursor) -> Indices:
        """Returns the flat indices of the newest row in each of the env slots that share a write position."""
        return self.numbered(worker, cursor.head, np.arange(cursor.slots.start, cursor.slots.stop))

    def later(self, indices: Indices, rows: int | Indices) -> Indices:
        """Returns flat indices moved by a number of rows within their env slots; wraps around at the last row.

        Args:
            indices: Flat indices.
            rows: Number of rows to move forward, or back if negative; broadcast against the indices.
        """
        per_worker = self.rows * self.num_slots
        further: Indices = indices + rows * self.num_slots
        if self.num_workers == 1:
            return further % per_worker
        workers: Indices = indices - indices % per_worker
        within: Indices = (further - workers) % per_worker
        return workers + within

    def rows_ahead(self, indices: Indices) -> Indices:
        """Returns, for each flat index, the number of rows written after it in its env slot; -1 for empty entries.

        The result is 0 at a slot's newest row, which holds the observation after the slot's last step.
        """
        ahead, most = self._ahead_and_most(indices)
        ahead[ahead > most] = -1
        return ahead

    def rows_before(self, indices: Indices) -> Indices:
        """Returns, for each flat index, the number of rows before it in its env slot that can still be read."""
        ahead, most = self._ahead_and_most(indices)
        behind: Indices = most - ahead
        return behind

    def _ahead_and_most(self, indices: Indices) -> tuple[Indices, Indices]:
        """Returns the numbers of rows written after entries at indices [...], and their maximum for readable ones."""
        rows, slots = np.divmod(indices, self.num_slots)
        workers, within = np.divmod(rows, self.rows)
        heads, most = np.empty((2, self.num_workers, self.num_slots), np.int64)
        for worker, cursors in enumerate(self._cursors):
            for cursor in cursors:
                heads[worker, cursor.slots] = cursor.head
                kept = cursor.filled if cursor.filled < self.rows else self.rows - 1 - self._reach
                most[worker, cursor.slots] = kept if cursor.begun else -1
        return (heads[workers, slots] - within) % self.rows, most[workers, slots]

    def candidates(self, generator: np.random.Generator, number: int) -> Indices:
        """Samples `number` flat indices uniformly with replacement, among rows that have been written.

        If a worker's env slots have separate write positions, a row counts as written once any of the slots wrote it.
        """
        filled = self._most_filled
        if self.num_workers == 1:
            return generator.integers(filled[0] * self.num_slots, size=number)
        ends = np.cumsum(filled) * self.num_slots
        drawn = generator.integers(ends[-1], size=number)
        workers = np.searchsorted(ends, drawn, side="right")
        per_worker = self.rows * self.num_slots
        indices: Indices = drawn - (ends[workers] - np.array(filled)[workers] * self.num_slots) + workers * per_worker
        return indices

    def draw(self, generator: np.random.Generator, number: int, times: int, ready: NDArray[np.bool_]) -> Indices:
        """Samples flat indices uniformly with replacement, among the steps that may be sampled.

        The result is the same as from `times` calls that sample `number` indices each.

        Args:
            generator: Random generator to sample with.
            number: Number of indices, S.
            times: Number of times that S indices are sampled, N.
            ready: Mask of the indices that may be sampled, [num_indices]; at least one that can be drawn must be True.

        Returns:
            Sampled indices, [N * S].
        """
        left = self.candidates(generator, number * times)
        wrong = (~ready.take(left)).nonzero()[0]
        if not len(wrong):
            return left

        def taken(count: int) -> Indices:
            nonlocal left
            if count > len(left):
                more = self.candidates(generator, count - len(left))
                left = np.concatenate([left, more]) if len(left) else more
            own, left = left[:count], left[count:]
            return own

        parts = []
        for _ in range(times):
            own = taken(number)
            wrong = (~ready.take(own)).nonzero()[0]
            while len(wrong):  # the next candidates replace those that are not ready, before others are used
                own[wrong] = again = taken(len(wrong))
                wrong = wrong[~ready.take(again)]
            parts.append(own)
        return parts[0] if times == 1 else np.concatenate(parts)

    @property
    def num_used_rows(self) -> int:
        """Number of rows, counted from the first, that hold data of any worker, including the newest observation."""
        return max(self._most_filled) + 1

    def state(self) -> dict[str, Any]:
        """Returns all write positions, for a checkpoint."""
        cursors: list[tuple[int, ...]] = [
            (worker, cursor.slots.start, cursor.slots.stop, cursor.head, cursor.filled, cursor.begun)
            for worker, cursors in enumerate(self._cursors)
            for cursor in cursors
        ]
        return {"cursors": np.array(cursors, np.int64), "are_apart": [shared is None for shared in self.shared]}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the write positions from `state()` of a buffer with the same shape."""
        are_apart = [bool(are_apart) for are_apart in state["are_apart"]]
        if len(are_apart) != self.num_workers:
            raise ValueError(
                f"the checkpoint holds the replay buffer's streams of {len(are_apart)} "
                f"{'worker' if len(are_apart) == 1 else 'workers'}, but the run has {self.num_workers}"
            )
        self._cursors = [[] for _ in range(self.num_workers)]
        cursors: NDArray[np.int64] = np.asarray(state["cursors"])
        for worker, start, stop, head, filled, begun in cursors.tolist():
            if not (0 <= worker < self.num_workers and 0 <= start < stop <= self.num_slots):
                raise ValueError(f"worker {worker} has no env slots {start} to {stop}")
            if not (0 <= head <= self.rows and 0 <= filled <= self.rows):
                raise ValueError(f"a stream of {self.rows} rows cannot be at row {head} with {filled} filled")
            self._cursors[worker].append(Cursor(slice(start, stop), head, filled, bool(begun)))
            self._most_filled[worker] = max(self._most_filled[worker], filled)
        self.num_written = self._most_filled[0] * self.num_slots
        owns = zip(are_apart, self._cursors, strict=True)
        self.shared = [None if is_apart else cursors[0] for is_apart, cursors in owns]
