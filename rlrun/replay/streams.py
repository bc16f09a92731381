"""How the places of a ring are numbered, and where each slot's stream stands (NumPy)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.replay.stores import Indices


@dataclass(slots=True)
class Cursor:
    """Where the streams of some slots of a worker stand, which have grown by the same rows so far.

    Attributes:
        slots: Which slots.
        head: The newest row; there is no step in it yet.
        filled: Rows with something behind them, at most all.
        begun: Whether anything was inserted.
    """

    slots: slice
    head: int = 0
    filled: int = 0
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Inserted:
    """What an insertion did to the streams of some slots.

    Attributes:
        worker: Whose fragment it was.
        slots: Which of its slots.
        steps: Rows of the fragment that were inserted, T in number.
        rows: The rows of the worker in which their observations stand, [T + 1]; there is no step in the last one yet.
        lost: Rows of the worker whose older content is gone or cannot be put together any more, in the order of the
            stream; where the ring is not full yet they held nothing.
        overwritten: Indices that could be drawn before and cannot be any more.
        ready: Indices that can be drawn from now on and could not be before.
    """

    worker: int
    slots: slice
    steps: slice | Indices
    rows: Indices
    lost: Indices
    overwritten: Indices
    ready: Indices


class Streams:
    """Places [workers, rows, columns], numbered through in this order, and the cursors of their streams.

    Each column of a worker is one slot's stream, which fills its rows from the first one on and begins anew behind the
    last. The slots of a worker share a cursor until they are told apart.

    Args:
        num_workers: Workers whose fragments are stored.
        rows: Rows of each worker.
        columns: Columns of each worker.
        reach: Rows before a row that are needed to read it.
    """

    def __init__(self, num_workers: int, rows: int, columns: int, reach: int) -> None:
        self.num_workers = num_workers
        self.rows = rows
        self.columns = columns
        self._reach = reach
        self._cursors = [[Cursor(slice(0, columns))] for _ in range(num_workers)]
        self._are_apart = [False] * num_workers
        self._most_filled = [0] * num_workers

    @property
    def num_indices(self) -> int:
        """How many indices there are."""
        return self.num_workers * self.rows * self.columns

    def shared(self, worker: int) -> Cursor | None:
        """Returns the cursor that all slots of a worker share; None once they are apart."""
        return None if self._are_apart[worker] else self._cursors[worker][0]

    def each(self, worker: int) -> list[Cursor]:
        """Returns the cursors of a worker: one for all its slots, or one for each."""
        return self._cursors[worker]

    def part(self, worker: int) -> None:
        """Gives each slot of a worker a cursor of its own."""
        (shared,) = self._cursors[worker]
        self._are_apart[worker] = True
        self._cursors[worker] = [replace(shared, slots=slice(slot, slot + 1)) for slot in range(self.columns)]

    def advance(self, worker: int, cursor: Cursor, number: int) -> None:
        """Moves a cursor by so many new rows."""
        cursor.head = (cursor.head + number) % self.rows
        cursor.filled = min(cursor.filled + number, self.rows)
        cursor.begun = True
        self._most_filled[worker] = max(self._most_filled[worker], cursor.filled)

    def span(self, first: int, number: int) -> slice | Indices:
        """Returns rows that follow each other, as a slice where they lie side by side."""
        return slice(first, first + number) if first + number <= self.rows else self.row_numbers(first, number)

    def row_numbers(self, first: int, number: int) -> Indices:
        """Returns the numbers of rows that follow each other, [number]."""
        numbers: Indices = np.arange(first, first + number)
        return numbers if first + number <= self.rows else numbers % self.rows

    def numbered(self, worker: int, rows: int | Indices, columns: Indices) -> Indices:
        """Returns indices; rows and columns are broadcast against each other."""
        indices: Indices = (worker * self.rows + rows) * self.columns + columns
        return indices

    def heads(self, worker: int, cursor: Cursor) -> Indices:
        """Returns the indices at a cursor's head, [slots]."""
        return self.numbered(worker, cursor.head, np.arange(cursor.slots.start, cursor.slots.stop))

    def later(self, indices: Indices, rows: int | Indices) -> Indices:
        """Returns the indices so many rows further on in the same workers and columns; negative for rows back.

        Args:
            indices: Where to begin.
            rows: How many rows; indices and rows are broadcast against each other.
        """
        per_worker = self.rows * self.columns
        further: Indices = indices + rows * self.columns
        if self.num_workers == 1:
            return further % per_worker
        workers: Indices = indices - indices % per_worker
        within: Indices = (further - workers) % per_worker
        return workers + within

    def rows_ahead(self, indices: Indices) -> Indices:
        """Returns how many rows were inserted behind indices [...] in their streams; -1 for those that hold nothing.

        The newest row of a stream, with the observation after its last step, has 0 of them, the oldest the most.
        """
        rows, slots = np.divmod(indices, self.columns)
        workers, within = np.divmod(rows, self.rows)
        heads, most = np.empty((2, self.num_workers, self.columns), np.int64)
        for worker, cursors in enumerate(self._cursors):
            for cursor in cursors:
                heads[worker, cursor.slots] = cursor.head
                kept = cursor.filled if cursor.filled < self.rows else self.rows - 1 - self._reach
                most[worker, cursor.slots] = kept if cursor.begun else -1
        ahead: Indices = (heads[workers, slots] - within) % self.rows
        ahead[ahead > most[workers, slots]] = -1
        return ahead

    def candidates(self, generator: np.random.Generator, number: int) -> Indices:
        """Draws indices among the rows that hold something, each as likely as any other and with repetition, [number].

        Of a worker whose slots are apart, rows count that some slots have not come to yet.
        """
        filled = self._most_filled
        if self.num_workers == 1:
            return generator.integers(filled[0] * self.columns, size=number)
        ends = np.cumsum(filled) * self.columns
        drawn = generator.integers(ends[-1], size=number)
        workers = np.searchsorted(ends, drawn, side="right")
        per_worker = self.rows * self.columns
        indices: Indices = drawn - (ends[workers] - np.array(filled)[workers] * self.columns) + workers * per_worker
        return indices

    @property
    def num_used_rows(self) -> int:
        """Rows from the first one on in which something stands of some worker, the newest observation included."""
        return max(self._most_filled) + 1

    def state(self) -> dict[str, Any]:
        """Returns all cursors."""
        cursors: list[tuple[int, ...]] = [
            (worker, cursor.slots.start, cursor.slots.stop, cursor.head, cursor.filled, cursor.begun)
            for worker, cursors in enumerate(self._cursors)
            for cursor in cursors
        ]
        return {"cursors": np.array(cursors, np.int64), "are_apart": list(self._are_apart)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned of streams of the same shape."""
        self._are_apart = [bool(are_apart) for are_apart in state["are_apart"]]
        if len(self._are_apart) != self.num_workers:
            raise ValueError(f"streams of {len(self._are_apart)} workers, and there are {self.num_workers}")
        self._cursors = [[] for _ in range(self.num_workers)]
        cursors: NDArray[np.int64] = np.asarray(state["cursors"])
        for worker, start, stop, head, filled, begun in cursors.tolist():
            if not (0 <= worker < self.num_workers and 0 <= start < stop <= self.columns):
                raise ValueError(f"there is no stream of worker {worker} in env slots {start} to {stop}")
            if not (0 <= head <= self.rows and 0 <= filled <= self.rows):
                raise ValueError(f"a stream of {self.rows} rows does not stand at {head} with {filled} filled")
            self._cursors[worker].append(Cursor(slice(start, stop), head, filled, bool(begun)))
            self._most_filled[worker] = max(self._most_filled[worker], filled)
