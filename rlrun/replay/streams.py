"""How the cells of a ring are numbered, and where each slot's stream stands in them (NumPy)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.replay.stores import Indices


@dataclass(slots=True)
class Cursor:
    """Where the streams of some slots of a lane stand, which have grown by the same rows so far.

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
        lane: Whose fragment it was.
        slots: Which of its slots.
        steps: Rows of the fragment that were inserted, T in number.
        rows: The rows of the lane in which their observations stand, [T + 1]; there is no step in the last one yet.
        lost: Rows of the lane whose older content is gone or cannot be put together any more, in the order of the
            stream; where the ring is not full yet they held nothing.
        overwritten: Cells that could be drawn before and cannot be any more.
        ready: Cells that can be drawn from now on and could not be before.
    """

    lane: int
    slots: slice
    steps: slice | Indices
    rows: Indices
    lost: Indices
    overwritten: Indices
    ready: Indices


class Streams:
    """Cells [lanes, rows, columns], numbered through in this order, and the cursors of their streams.

    Each column of a lane is one slot's stream, which fills its rows from the first one on and begins anew behind the
    last. The slots of a lane share a cursor until they are told apart.

    Args:
        num_lanes: Lanes.
        rows: Rows of each lane.
        columns: Columns of each lane.
        reach: Rows before a row that are needed to read it.
    """

    def __init__(self, num_lanes: int, rows: int, columns: int, reach: int) -> None:
        self.num_lanes = num_lanes
        self.rows = rows
        self.columns = columns
        self._reach = reach
        self._cursors = [[Cursor(slice(0, columns))] for _ in range(num_lanes)]
        self._are_apart = [False] * num_lanes
        self._most_filled = [0] * num_lanes

    @property
    def num_cells(self) -> int:
        """Cells over all lanes."""
        return self.num_lanes * self.rows * self.columns

    def shared(self, lane: int) -> Cursor | None:
        """Returns the cursor that all slots of a lane share; None once they are apart."""
        return None if self._are_apart[lane] else self._cursors[lane][0]

    def each(self, lane: int) -> list[Cursor]:
        """Returns the cursors of a lane: one for all its slots, or one for each."""
        return self._cursors[lane]

    def part(self, lane: int) -> None:
        """Gives each slot of a lane a cursor of its own."""
        (shared,) = self._cursors[lane]
        self._are_apart[lane] = True
        self._cursors[lane] = [replace(shared, slots=slice(slot, slot + 1)) for slot in range(self.columns)]

    def advance(self, lane: int, cursor: Cursor, number: int) -> None:
        """Moves a cursor by so many new rows."""
        cursor.head = (cursor.head + number) % self.rows
        cursor.filled = min(cursor.filled + number, self.rows)
        cursor.begun = True
        self._most_filled[lane] = max(self._most_filled[lane], cursor.filled)

    def span(self, first: int, number: int) -> slice | Indices:
        """Returns rows that follow each other, as a slice where they lie side by side."""
        return slice(first, first + number) if first + number <= self.rows else self.row_numbers(first, number)

    def row_numbers(self, first: int, number: int) -> Indices:
        """Returns the numbers of rows that follow each other, [number]."""
        numbers: Indices = np.arange(first, first + number)
        return numbers if first + number <= self.rows else numbers % self.rows

    def numbered(self, lane: int, rows: int | Indices, columns: Indices) -> Indices:
        """Returns the numbers of cells; rows and columns are broadcast against each other."""
        cells: Indices = (lane * self.rows + rows) * self.columns + columns
        return cells

    def heads(self, lane: int, cursor: Cursor) -> Indices:
        """Returns the numbers of the cells at a cursor's head, [slots]."""
        return self.numbered(lane, cursor.head, np.arange(cursor.slots.start, cursor.slots.stop))

    def later(self, cells: Indices, rows: int | Indices) -> Indices:
        """Returns the cells so many rows further on in the same lanes and columns; negative for rows back.

        Args:
            cells: Their numbers.
            rows: How many rows; cells and rows are broadcast against each other.
        """
        per_lane = self.rows * self.columns
        further: Indices = cells + rows * self.columns
        if self.num_lanes == 1:
            return further % per_lane
        lanes: Indices = cells - cells % per_lane
        within: Indices = (further - lanes) % per_lane
        return lanes + within

    def rows_ahead(self, cells: Indices) -> Indices:
        """Returns how many rows were inserted behind cells [...] in their streams; -1 for those that hold nothing.

        The newest row of a stream, with the observation after its last step, has 0 of them, the oldest the most.
        """
        rows, slots = np.divmod(cells, self.columns)
        lanes, within = np.divmod(rows, self.rows)
        heads, most = np.empty((2, self.num_lanes, self.columns), np.int64)
        for lane, cursors in enumerate(self._cursors):
            for cursor in cursors:
                heads[lane, cursor.slots] = cursor.head
                kept = cursor.filled if cursor.filled < self.rows else self.rows - 1 - self._reach
                most[lane, cursor.slots] = kept if cursor.begun else -1
        ahead: Indices = (heads[lanes, slots] - within) % self.rows
        ahead[ahead > most[lanes, slots]] = -1
        return ahead

    def candidates(self, generator: np.random.Generator, number: int) -> Indices:
        """Draws cells among the rows that hold something, each as likely as any other and with repetition, [number].

        In a lane whose slots are apart, rows count that some slots have not come to yet.
        """
        filled = self._most_filled
        if self.num_lanes == 1:
            return generator.integers(filled[0] * self.columns, size=number)
        ends = np.cumsum(filled) * self.columns
        drawn = generator.integers(ends[-1], size=number)
        lanes = np.searchsorted(ends, drawn, side="right")
        per_lane = self.rows * self.columns
        cells: Indices = drawn - (ends[lanes] - np.array(filled)[lanes] * self.columns) + lanes * per_lane
        return cells

    @property
    def num_used_rows(self) -> int:
        """Rows from the first one on in which something stands in some lane, the newest observation included."""
        return max(self._most_filled) + 1

    def state(self) -> dict[str, Any]:
        """Returns all cursors."""
        cursors: list[tuple[int, ...]] = [
            (lane, cursor.slots.start, cursor.slots.stop, cursor.head, cursor.filled, cursor.begun)
            for lane, cursors in enumerate(self._cursors)
            for cursor in cursors
        ]
        return {"cursors": np.array(cursors, np.int64), "are_apart": list(self._are_apart)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned of streams of the same shape."""
        self._are_apart = [bool(are_apart) for are_apart in state["are_apart"]]
        self._cursors = [[] for _ in range(self.num_lanes)]
        cursors: NDArray[np.int64] = np.asarray(state["cursors"])
        for lane, start, stop, head, filled, begun in cursors.tolist():
            self._cursors[lane].append(Cursor(slice(start, stop), head, filled, bool(begun)))
            self._most_filled[lane] = max(self._most_filled[lane], filled)
