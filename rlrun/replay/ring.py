"""Streams of experience as they came, the oldest overwritten by the newest (NumPy)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.packing import filled_rows
from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import leaves, map_tree
from rlrun.errors import UsageError
from rlrun.replay.cells import FLAGS, cells_for
from rlrun.replay.memory import zeros_in
from rlrun.replay.n_step import n_step_transitions
from rlrun.replay.stores import Indices, Store

_NONE: Indices = np.zeros(0, np.int64)


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


@dataclass(slots=True)
class _Cursor:
    """Where the streams of some slots of a lane stand, which have grown by the same rows so far.

    Attributes:
        slots: Which slots.
        head: The newest row; there is no step in it yet.
        filled: Rows with steps behind it, at most all.
        begun: Whether anything was inserted.
    """

    slots: slice
    head: int = 0
    filled: int = 0
    begun: bool = False


class ReplayRing:
    """Keeps each worker's fragments end to end, every observation once.

    The cells are [lanes, rows, columns]: a lane for each worker, a row for each step, a column for each of its envs.
    They are numbered through in this order. The observation behind a step is the one in the next row, which may be an
    episode's final one: that row then holds no step and is never drawn. A fragment that does not go on where the one
    before it in its lane ended (a worker was made anew) begins one row later, so that the row between closes what came
    before.

    Empty rows (`rlrun.data.packing`) are not kept: from the first one on each slot's stream of its lane grows at its
    own pace, by its own rows. Until then the slots of a lane share their rows, which is faster.

    A step can be drawn once all the steps that it is folded with are here.

    Who draws something else than steps, such as sequences, finds its way with `later` and `rows_ahead`, reads cells
    with `read`, and learns from what `insert` returns which rows are new and which are gone. A fragment's columns
    beyond those of a step (a recurrent state, the starts of episodes) are kept if they are named in `extra`.

    Attributes:
        num_ready: Steps that can be drawn.
        rows: Rows of each lane; 0 before the first insertion.
        columns: Columns of each lane; 0 before the first insertion.
    """

    def __init__(
        self,
        capacity: int,
        num_lanes: int,
        n_step: int,
        gamma: float,
        *,
        extra: Sequence[str] = (),
        frame_stack: int | None = None,
        on_disk: str | None = None,
    ) -> None:
        """Takes how much is kept; memory is set aside at the first insertion, when shapes are known.

        Args:
            capacity: Cells over all lanes.
            num_lanes: Workers, from whose columns the number of rows follows.
            n_step: Steps that are folded into one.
            gamma: Discount.
            extra: Further columns of the fragments that are kept, each [T, B, ...] or a tree of such.
            frame_stack: How many images an observation, or a part of it, is a stack of, the newest last; each is then
                kept once. None for none.
            on_disk: Directory whose files hold the cells; None for memory.
        """
        self.capacity = capacity
        self.num_lanes = num_lanes
        self.n_step = n_step
        self.gamma = gamma
        self.extra = tuple(extra)
        self.frame_stack = frame_stack
        self.on_disk = on_disk
        self.num_ready = 0
        self.rows = 0
        self.columns = 0
        # Rows that what is read of a row takes frames from.
        self._reach = 0 if frame_stack is None else frame_stack - 1
        self._names = ("obs", "actions", "rewards", *FLAGS, *extra)
        self._stores: dict[str, Any] = {}
        self._flat_stores: dict[str, list[Store]] = {}
        self._like: dict[str, Any] | None = None
        self._ready = np.zeros(0, np.bool_)
        self._cursors: list[list[_Cursor]] = [[] for _ in range(num_lanes)]
        self._is_packed = [False] * num_lanes
        self._most_filled = [0] * num_lanes

    def insert(self, lane: int, fragment: SampleBatch) -> list[Inserted]:
        """Stores a fragment [T, B] behind the last one of its lane; tells what that did, for all slots or each.

        Args:
            lane: Whose it is.
            fragment: Its columns, with one observation more than steps.

        Raises:
            UsageError: If the capacity is too small for it.
        """
        length = len(fragment["valid"])
        if not self._stores:
            self._set_aside(fragment)
        least = length + self.n_step + 2 + self._reach
        if least > self.rows:
            raise UsageError(
                f"a replay of {self.capacity:,} steps has {self.rows} rows for each env and is too small for fragments "
                f"of {length}: set replay.capacity to at least {least * self.num_lanes * self.columns:,}"
            )
        if not self._is_packed[lane]:
            (cursor,) = self._cursors[lane]
            goes_on = self._goes_on(lane, cursor, fragment)
            if goes_on is not None and not self._has_gap(lane, cursor, fragment):
                seals = cursor.begun and not goes_on
                return [self._append(lane, cursor, fragment, slice(None), seals=seals, continues=goes_on)]
            self._is_packed[lane] = True
            self._cursors[lane] = [replace(cursor, slots=slice(slot, slot + 1)) for slot in range(self.columns)]
        filled = filled_rows(fragment["valid"], fragment["terminateds"] | fragment["truncateds"])
        rows = [filled[:, cursor.slots.start].nonzero()[0] for cursor in self._cursors[lane]]
        slots = zip(self._cursors[lane], rows, strict=True)
        return [self._append_packed(lane, cursor, fragment, own) for cursor, own in slots if len(own)]

    def pad(self, lane: int, number: int) -> list[Inserted]:
        """Stores so many rows without steps behind all streams of a lane, in which nothing more comes."""
        like, inserted = self._like, []
        assert like is not None  # something was inserted
        for cursor in self._cursors[lane]:
            shape = (number, cursor.slots.stop - cursor.slots.start)
            part = SampleBatch({name: np.zeros(shape, np.bool_) for name in FLAGS}, rewards=np.zeros(shape, np.float32))
            for name in ("obs", "actions", *self.extra):
                own = (number + 1, shape[1]) if name == "obs" else shape
                part[name] = map_tree(lambda leaf, own=own: np.zeros((*own, *leaf.shape[2:]), leaf.dtype), like[name])
            inserted.append(self._append(lane, cursor, part, slice(None), seals=True, continues=False))
        return inserted

    def _has_gap(self, lane: int, cursor: _Cursor, fragment: SampleBatch) -> bool:
        """Whether a fragment has empty rows; row 0 of a lane's first fragment may hold a final observation."""
        valid = fragment["valid"]
        if valid.all():
            return False
        ended = self._has_ended(lane, cursor) if cursor.begun else np.ones(self.columns, np.bool_)
        return not filled_rows(valid, fragment["terminateds"] | fragment["truncateds"], ended)[:-1].all()

    def _has_ended(self, lane: int, cursor: _Cursor) -> NDArray[np.bool_]:
        """Whether the last row before a head holds a step that ended its episode, for each slot."""
        terminated, truncated, valid = (self._last(name, lane, cursor) for name in FLAGS)
        return (terminated | truncated) & valid

    def _last(self, name: str, lane: int, cursor: _Cursor) -> NDArray[np.bool_]:
        last: NDArray[np.bool_] = self._cells(name)[lane, (cursor.head - 1) % self.rows, cursor.slots]
        return last

    def _append_packed(self, lane: int, cursor: _Cursor, fragment: SampleBatch, rows: Indices) -> Inserted:
        """Stores those rows of a fragment that hold something in one slot; the last of them closes the others."""
        part = SampleBatch()
        for name in self._names:
            own = rows if name == "obs" else rows[:-1]
            part[name] = map_tree(lambda leaf, own=own: leaf[own, cursor.slots], fragment[name])
        # Behind an end a new stream begins, also with an observation like the final one. Where no step stands before
        # the head, there is nothing to close.
        goes_on = bool(self._goes_on(lane, cursor, part)) and not self._has_ended(lane, cursor).any()
        seals = cursor.begun and not goes_on and bool(self._last("valid", lane, cursor).all())
        return self._append(lane, cursor, part, rows[:-1], seals=seals, continues=goes_on)

    def _append(
        self, lane: int, cursor: _Cursor, part: SampleBatch, steps: slice | Indices, *, seals: bool, continues: bool
    ) -> Inserted:
        """Stores rows without gaps, [T, slots of the cursor].

        Args:
            lane: Whose they are.
            cursor: Where they go.
            part: Their columns.
            steps: Which rows of a fragment they were.
            seals: Whether what stands at the head closes the steps before it, so that they begin one row later.
            continues: Whether their first observation stands at the head already.
        """
        length, head, slots = len(part["valid"]), cursor.head, cursor.slots
        sealed = int(seals)
        if seals:
            self._close(lane, cursor)
        first = (head + sealed) % self.rows
        lost = sealed + length + 1 + self._reach
        overwritten = self._retire(lane, cursor, lost)
        own, within = self._span(first, length + 1), self._span(first, length)
        for name in self._names:
            for store, leaf in zip(self._flat_stores[name], _leaves(part[name]), strict=True):
                store.write(lane, own if name == "obs" else within, slots, leaf, continues=continues)
        cursor.head = (first + length) % self.rows
        cursor.filled = min(cursor.filled + sealed + length, self.rows)
        cursor.begun = True
        self._cells("valid")[lane, cursor.head, slots] = False  # what stood there is gone, or closes a stream
        self._most_filled[lane] = max(self._most_filled[lane], cursor.filled)
        before = min(self.n_step - 1 + sealed, cursor.filled - length) if self.n_step > 1 else 0
        return Inserted(
            lane=lane,
            slots=slots,
            steps=steps,
            rows=self._row_numbers(first, length + 1),
            lost=self._row_numbers(head, lost),
            overwritten=overwritten,
            ready=self._fold(lane, slots, (first - before) % self.rows, before + length),
        )

    def _set_aside(self, fragment: SampleBatch) -> None:
        names = ("valid", "obs", "actions", *self.extra)
        self._like = {name: map_tree(lambda leaf: leaf[:0].copy(), fragment[name]) for name in names}
        self.columns = fragment["valid"].shape[1]
        self.rows = self.capacity // (self.num_lanes * self.columns)
        shape = (self.num_lanes, self.rows, self.columns)

        self._stores = cells_for(
            fragment,
            shape,
            extra=self.extra,
            is_n_step=self.n_step > 1,
            frame_stack=self.frame_stack,
            new=zeros_in(self.on_disk),
        )
        self._flat_stores = {name: leaves(tree) for name, tree in self._stores.items()}
        self._ready = np.zeros(shape, np.bool_)
        self._cursors = [[_Cursor(slice(0, self.columns))] for _ in range(self.num_lanes)]

    def _goes_on(self, lane: int, cursor: _Cursor, part: SampleBatch) -> bool | None:
        """Whether rows begin with the observations that those before them ended with, bit for bit.

        A new stream that happens to begin so cannot be told from one that goes on, by a policy no more than here. None
        if some slots' rows do and others' do not.
        """
        if not cursor.begun:
            return False
        cells = self._numbered(lane, cursor.head, np.arange(cursor.slots.start, cursor.slots.stop))
        last = [store.read(cells) for store in self._flat_stores["obs"]]
        first = [leaf[0] for leaf in _leaves(part["obs"])]
        pairs = list(zip(last, first, strict=True))
        if all(before.tobytes() == after.tobytes() for before, after in pairs):
            return True
        same = (all(before[i].tobytes() == after[i].tobytes() for before, after in pairs) for i in range(len(cells)))
        return None if any(same) else False

    def _close(self, lane: int, cursor: _Cursor) -> None:
        """Has the steps that a stream breaks off with end at its last observation, which is no end for good."""
        last, slots = (cursor.head - 1) % self.rows, cursor.slots
        self._cells("truncateds")[lane, last, slots] |= ~self._cells("terminateds")[lane, last, slots]
        for name in (*FLAGS, "rewards"):
            self._cells(name)[lane, cursor.head, slots] = 0

    def _cells(self, name: str) -> NDArray[Any]:
        cells: NDArray[Any] = self._stores[name].cells
        return cells

    def _span(self, first: int, number: int) -> slice | Indices:
        """Returns rows that follow each other, as a slice where they lie side by side."""
        return slice(first, first + number) if first + number <= self.rows else self._row_numbers(first, number)

    def _row_numbers(self, first: int, number: int) -> Indices:
        numbers: Indices = np.arange(first, first + number)
        return numbers if first + number <= self.rows else numbers % self.rows

    def _retire(self, lane: int, cursor: _Cursor, number: int) -> Indices:
        """Has rows from a head on not be drawn any more; returns the cells that could be until now."""
        first, slots = cursor.head, cursor.slots
        if cursor.filled < self.rows and first + number <= self.rows:
            return _NONE  # nothing was ever there
        rows = self._span(first, number)
        where, columns = self._ready[lane, rows, slots].nonzero()
        if not len(where):
            return _NONE
        self.num_ready -= len(where)
        self._ready[lane, rows, slots] = False
        return self._numbered(lane, (first + where) % self.rows, columns + slots.start)

    def _numbered(self, lane: int, rows: int | Indices, columns: Indices) -> Indices:
        cells: Indices = (lane * self.rows + rows) * self.columns + columns
        return cells

    def _fold(self, lane: int, slots: slice, first: int, number: int) -> Indices:
        """Sets the n-step transitions in rows that follow each other; returns the cells that are ready now."""
        rows = self._span(first, number)
        if self.n_step == 1:
            new = self._cells("valid")[lane, rows, slots]
            self._ready[lane, rows, slots] = new
        else:
            own = {name: self._cells(name)[lane, rows, slots] for name in ("rewards", *FLAGS)}
            found = n_step_transitions(**own, gamma=self.gamma, n_step=self.n_step)
            self._cells("n_step_rewards")[lane, rows, slots] = found.rewards
            self._cells("discounts")[lane, rows, slots] = found.discounts
            self._cells("steps")[lane, rows, slots] = found.steps
            new = found.complete & ~self._ready[lane, rows, slots]
            self._ready[lane, rows, slots] |= new
        where, columns = new.nonzero()
        self.num_ready += len(where)
        return self._numbered(lane, (first + where) % self.rows, columns + slots.start)

    def draw(self, generator: np.random.Generator, number: int) -> Indices:
        """Draws cells among those that are ready, each as likely as any other and with repetition, [number].

        Raises:
            RuntimeError: If none is ready.
        """
        if not self.num_ready:
            raise RuntimeError("nothing can be drawn from a replay that holds no whole step")
        ready = self._ready.reshape(-1)
        drawn = self._candidates(generator, number)
        wrong = (~ready[drawn]).nonzero()[0]
        while len(wrong):
            drawn[wrong] = self._candidates(generator, len(wrong))
            wrong = wrong[~ready[drawn[wrong]]]
        return drawn

    def _candidates(self, generator: np.random.Generator, number: int) -> Indices:
        filled = self._most_filled
        if self.num_lanes == 1:
            return generator.integers(filled[0] * self.columns, size=number)
        ends = np.cumsum(filled) * self.columns
        drawn = generator.integers(ends[-1], size=number)
        lanes = np.searchsorted(ends, drawn, side="right")
        per_lane = self.rows * self.columns
        cells: Indices = drawn - (ends[lanes] - np.array(filled)[lanes] * self.columns) + lanes * per_lane
        return cells

    def gather(self, cells: Indices) -> SampleBatch:
        """Returns the steps in cells as rows [N, 1], each with the observation behind the last step folded into it."""
        cells = cells[:, None]
        obs = self._stores["obs"]
        if self.n_step == 1:
            behind = self.later(cells, 1)
            rewards = self._stores["rewards"].read(cells)
            discounts = ~self._stores["terminateds"].read(cells) * np.float32(self.gamma)
        else:
            behind = self.later(cells, self._stores["steps"].read(cells).astype(np.int64))
            rewards, discounts = self._stores["n_step_rewards"].read(cells), self._stores["discounts"].read(cells)
        return SampleBatch(
            obs=map_tree(lambda store: store.read(cells), obs),
            actions=map_tree(lambda store: store.read(cells), self._stores["actions"]),
            rewards=rewards,
            discounts=discounts,
            next_obs=map_tree(lambda store: store.read(behind), obs),
            valid=np.ones(cells.shape, np.bool_),
        )

    def read(self, cells: Indices, names: Sequence[str]) -> SampleBatch:
        """Returns columns of cells as they were inserted, with the cells' own leading dimensions.

        Where `valid` is False no step stands in a cell, and of its columns only `obs` means something: it is an
        episode's final observation, or the last one before a stream broke off. The same holds for a lane's newest row.

        Args:
            cells: Their numbers, [...].
            names: Of `obs`, `actions`, `rewards`, `terminateds`, `truncateds`, `valid` and the `extra` ones.
        """
        return SampleBatch({name: map_tree(lambda store: store.read(cells), self._stores[name]) for name in names})

    @property
    def num_cells(self) -> int:
        """Cells over all lanes; 0 before the first insertion."""
        return self.num_lanes * self.rows * self.columns

    def are_ready(self, cells: Indices) -> NDArray[np.bool_]:
        """Tells of cells [...] whether they can be drawn, [...]."""
        ready: NDArray[np.bool_] = self._ready.reshape(-1).take(cells)
        return ready

    def cells_of(self, lane: int, rows: Indices) -> Indices:
        """Returns the numbers of all cells in rows [N] of a lane, [N, B]."""
        return self._numbered(lane, rows[:, None], np.arange(self.columns))

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
        """Returns how many rows were inserted behind cells [...] in their lanes; -1 for those that hold nothing.

        The newest row of a lane, with the observation after its last step, has 0 of them, the oldest the most.
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

    @property
    def num_bytes(self) -> int:
        """Bytes that are set aside."""
        stores = [store for stores in self._flat_stores.values() for store in stores]
        return int(self._ready.nbytes + sum(store.num_bytes for store in stores))

    def state(self) -> dict[str, Any]:
        """Returns everything that was inserted and is still there."""
        rows = max(self._most_filled) + 1
        cursors = [
            (lane, cursor.slots.start, cursor.slots.stop, cursor.head, cursor.filled, cursor.begun)
            for lane, cursors in enumerate(self._cursors)
            for cursor in cursors
        ]
        return {
            "cursors": np.array(cursors, np.int64).reshape(-1, 6),
            "is_packed": list(self._is_packed),
            "like": self._like,
            "ready": self._ready[:, :rows].copy() if self._stores else None,
            "stores": {name: map_tree(lambda store: store.state(rows), tree) for name, tree in self._stores.items()},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""
        if state["like"] is None:
            return
        self._set_aside(SampleBatch(state["like"]))
        self._is_packed = [bool(is_packed) for is_packed in state["is_packed"]]
        self._cursors = [[] for _ in range(self.num_lanes)]
        for lane, start, stop, head, filled, begun in np.asarray(state["cursors"]).tolist():
            self._cursors[lane].append(_Cursor(slice(start, stop), head, filled, bool(begun)))
            self._most_filled[lane] = max(self._most_filled[lane], filled)
        for name, stores in self._stores.items():
            map_tree(lambda store, saved: store.load_state(saved), stores, state["stores"][name])
        self._ready[:, : state["ready"].shape[1]] = state["ready"]
        self.num_ready = int(np.count_nonzero(self._ready))


def _leaves(tree: Any) -> list[Any]:
    """Returns a tree's leaves, fast for the commonest one, which is an array."""
    return [tree] if isinstance(tree, np.ndarray) else leaves(tree)
