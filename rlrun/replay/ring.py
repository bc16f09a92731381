"""Experience as it came, the oldest overwritten by the newest (NumPy)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.packing import filled_rows
from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import leaves, map_tree
from rlrun.errors import UsageError
from rlrun.replay.cells import FLAGS, cells_for, rows_of, rows_without_steps
from rlrun.replay.memory import zeros_in
from rlrun.replay.n_step import n_step_transitions
from rlrun.replay.stores import Indices, Store
from rlrun.replay.streams import Cursor, Inserted, Streams

_NONE: Indices = np.zeros(0, np.int64)


class ReplayRing:
    """Keeps each worker's fragments end to end, every observation once.

    The cells are [lanes, rows, columns]: a lane for each worker, a row for each step, a column for each of its slots.
    They are numbered through in this order. The observation behind a step is the one in the next row, which may be an
    episode's final one: that row then holds no step and is never drawn. A fragment that does not go on where the one
    before it in its lane ended (a worker was made anew) begins one row later, so that the row between closes what came
    before.

    Empty rows (`rlrun.data.packing`) are not kept: from the first one on, each slot's stream of its lane grows by its
    own rows. Until then the slots of a lane share their rows, which is faster.

    A step can be drawn once all steps of its n-step transition are here.

    Who draws something else than steps, such as sequences, finds its way with `streams`, reads cells with `read`, and
    learns from what `insert` returns which rows are new and which are gone. A fragment's columns beyond those of a
    step (a recurrent state, the starts of episodes) are kept if they are named in `extra`.

    Args:
        capacity: Cells over all lanes.
        num_lanes: Workers, from whose columns the number of rows follows.
        n_step: Steps of a transition.
        gamma: Discount.
        extra: Further columns of the fragments that are kept, each [T, B, ...] or a tree of such.
        frame_stack: How many images an observation, or a part of it, is a stack of, the newest last; each is then kept
            once. None for none.
        on_disk: Directory whose files hold the cells; None for memory.

    Attributes:
        num_ready: Steps that can be drawn.
        streams: Where the cells are; none before the first insertion, when shapes are known.
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
        self.capacity = capacity
        self.num_lanes = num_lanes
        self.n_step = n_step
        self.gamma = gamma
        self.extra = tuple(extra)
        self.frame_stack = frame_stack
        self.on_disk = on_disk
        self.num_ready = 0
        # Rows that what is read of a row takes frames from.
        self._reach = 0 if frame_stack is None else frame_stack - 1
        self.streams = Streams(num_lanes, 0, 0, self._reach)
        self._names = ("obs", "actions", "rewards", *FLAGS, *extra)
        self._stores: dict[str, Any] = {}
        self._flat_stores: dict[str, list[Store]] = {}
        self._like: dict[str, Any] = {}
        self._ready = np.zeros(0, np.bool_)

    @property
    def rows(self) -> int:
        """Rows of each lane; 0 before the first insertion."""
        return self.streams.rows

    @property
    def columns(self) -> int:
        """Columns of each lane; 0 before the first insertion."""
        return self.streams.columns

    def insert(self, lane: int, fragment: SampleBatch) -> list[Inserted]:
        """Stores a fragment [T, B] behind the last one of its lane; says what that did, for all slots or for each.

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
        cursor = self.streams.shared(lane)
        if cursor is not None:
            goes_on = self._goes_on(lane, cursor, fragment)
            if goes_on is not None and not self._has_gap(lane, cursor, fragment):
                seals = cursor.begun and not goes_on
                return [self._append(lane, cursor, fragment, slice(None), seals=seals, continues=goes_on)]
            self.streams.part(lane)
        filled = filled_rows(fragment["valid"], fragment["terminateds"] | fragment["truncateds"])
        slots = [(cursor, filled[:, cursor.slots.start].nonzero()[0]) for cursor in self.streams.each(lane)]
        return [self._append_packed(lane, cursor, fragment, rows) for cursor, rows in slots if len(rows)]

    def pad(self, lane: int, number: int) -> list[Inserted]:
        """Stores so many rows without steps behind all streams of a lane, in which nothing more comes."""
        inserted = []
        for cursor in self.streams.each(lane):
            part = rows_without_steps(self._like, number, cursor.slots)
            inserted.append(self._append(lane, cursor, part, slice(None), seals=True, continues=False))
        return inserted

    def _has_gap(self, lane: int, cursor: Cursor, fragment: SampleBatch) -> bool:
        """Whether a fragment has empty rows; row 0 of a lane's first fragment may hold a final observation."""
        valid = fragment["valid"]
        if np.count_nonzero(valid) == valid.size:
            return False
        ended = self._has_ended(lane, cursor) if cursor.begun else np.ones(self.columns, np.bool_)
        filled = filled_rows(valid, fragment["terminateds"] | fragment["truncateds"], ended)[:-1]
        return int(np.count_nonzero(filled)) < filled.size

    def _has_ended(self, lane: int, cursor: Cursor) -> NDArray[np.bool_]:
        """Whether the last row before a head holds a step that ended its episode, for each slot."""
        terminated, truncated, valid = (self._last(name, lane, cursor) for name in FLAGS)
        return (terminated | truncated) & valid

    def _last(self, name: str, lane: int, cursor: Cursor) -> NDArray[np.bool_]:
        last: NDArray[np.bool_] = self._cells(name)[lane, (cursor.head - 1) % self.rows, cursor.slots]
        return last

    def _goes_on(self, lane: int, cursor: Cursor, part: SampleBatch) -> bool | None:
        """Whether rows begin with the observations that those before them ended with, bit for bit.

        A new stream that happens to begin so cannot be told from one that goes on, by a policy no more than here. None
        if some slots' rows do and others' do not.
        """
        if not cursor.begun:
            return False
        heads = self.streams.heads(lane, cursor)
        last = [store.read(heads) for store in self._flat_stores["obs"]]
        pairs = [(before, leaf[0]) for before, leaf in zip(last, _leaves(part["obs"]), strict=True)]
        if all(before.tobytes() == after.tobytes() for before, after in pairs):
            return True
        same = (all(before[i].tobytes() == after[i].tobytes() for before, after in pairs) for i in range(len(heads)))
        return None if any(same) else False

    def _append_packed(self, lane: int, cursor: Cursor, fragment: SampleBatch, rows: Indices) -> Inserted:
        """Stores those rows of a fragment that hold something in one slot; the last of them closes the others."""
        part = rows_of(fragment, self._names, rows, cursor.slots)
        # Behind an end a new stream begins, also with an observation like the final one. Where no step stands before
        # the head, there is nothing to close.
        goes_on = bool(self._goes_on(lane, cursor, part)) and not self._has_ended(lane, cursor).any()
        seals = cursor.begun and not goes_on and bool(self._last("valid", lane, cursor).all())
        return self._append(lane, cursor, part, rows[:-1], seals=seals, continues=goes_on)

    def _append(
        self, lane: int, cursor: Cursor, part: SampleBatch, steps: slice | Indices, *, seals: bool, continues: bool
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
        streams, rows, slots = self.streams, self.streams.rows, cursor.slots
        length, head, sealed = len(part["valid"]), cursor.head, int(seals)
        if seals:
            self._close(lane, cursor)
        first = (head + sealed) % rows
        lost = sealed + length + 1 + self._reach
        overwritten = self._retire(lane, cursor, lost)
        own, within = streams.span(first, length + 1), streams.span(first, length)
        for name in self._names:
            for store, leaf in zip(self._flat_stores[name], _leaves(part[name]), strict=True):
                store.write(lane, own if name == "obs" else within, slots, leaf, continues=continues)
        streams.advance(lane, cursor, sealed + length)
        self._cells("valid")[lane, cursor.head, slots] = False  # what stood there is gone, or closes a stream
        before = min(self.n_step - 1 + sealed, cursor.filled - length) if self.n_step > 1 else 0
        return Inserted(
            lane=lane,
            slots=slots,
            steps=steps,
            rows=streams.row_numbers(first, length + 1),
            lost=streams.row_numbers(head, lost),
            overwritten=overwritten,
            ready=self._add_transitions(lane, slots, (first - before) % rows, before + length),
        )

    def _set_aside(self, fragment: SampleBatch) -> None:
        self._like = {name: map_tree(lambda leaf: leaf[:0].copy(), fragment[name]) for name in self._names}
        columns = fragment["valid"].shape[1]
        rows = self.capacity // (self.num_lanes * columns)
        self.streams = Streams(self.num_lanes, rows, columns, self._reach)
        self._stores = cells_for(
            fragment,
            (self.num_lanes, rows, columns),
            extra=self.extra,
            is_n_step=self.n_step > 1,
            frame_stack=self.frame_stack,
            new=zeros_in(self.on_disk),
        )
        self._flat_stores = {name: leaves(tree) for name, tree in self._stores.items()}
        self._ready = np.zeros((self.num_lanes, rows, columns), np.bool_)

    def _close(self, lane: int, cursor: Cursor) -> None:
        """Has the steps that a stream breaks off with end at its last observation, which is no end for good."""
        last, slots = (cursor.head - 1) % self.rows, cursor.slots
        self._cells("truncateds")[lane, last, slots] |= ~self._cells("terminateds")[lane, last, slots]
        for name in (*FLAGS, "rewards"):
            self._cells(name)[lane, cursor.head, slots] = 0

    def _cells(self, name: str) -> NDArray[Any]:
        cells: NDArray[Any] = self._stores[name].cells
        return cells

    def _retire(self, lane: int, cursor: Cursor, number: int) -> Indices:
        """Has rows from a head on not be drawn any more; returns the cells that could be until now."""
        first, slots = cursor.head, cursor.slots
        if cursor.filled < self.rows and first + number <= self.rows:
            return _NONE  # nothing was ever there
        rows = self.streams.span(first, number)
        where, columns = self._ready[lane, rows, slots].nonzero()
        if not len(where):
            return _NONE
        self.num_ready -= len(where)
        self._ready[lane, rows, slots] = False
        return self.streams.numbered(lane, (first + where) % self.rows, columns + slots.start)

    def _add_transitions(self, lane: int, slots: slice, first: int, number: int) -> Indices:
        """Works out the transitions from rows that follow each other; returns the cells that are ready now."""
        rows = self.streams.span(first, number)
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
        return self.streams.numbered(lane, (first + where) % self.rows, columns + slots.start)

    def draw(self, generator: np.random.Generator, number: int) -> Indices:
        """Draws cells among those that are ready, each as likely as any other and with repetition, [number].

        Raises:
            RuntimeError: If none is ready.
        """
        if not self.num_ready:
            raise RuntimeError("nothing can be drawn from a replay that holds no whole step")
        ready = self._ready.reshape(-1)
        drawn = self.streams.candidates(generator, number)
        wrong = (~ready[drawn]).nonzero()[0]
        while len(wrong):
            drawn[wrong] = self.streams.candidates(generator, len(wrong))
            wrong = wrong[~ready[drawn[wrong]]]
        return drawn

    def gather(self, cells: Indices) -> SampleBatch:
        """Returns the steps in cells as rows [N, 1], each with the observation behind its transition's last step."""
        cells = cells[:, None]
        obs = self._stores["obs"]
        if self.n_step == 1:
            behind = self.streams.later(cells, 1)
            rewards = self._stores["rewards"].read(cells)
            discounts = ~self._stores["terminateds"].read(cells) * np.float32(self.gamma)
        else:
            behind = self.streams.later(cells, self._stores["steps"].read(cells).astype(np.int64))
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

    def are_ready(self, cells: Indices) -> NDArray[np.bool_]:
        """Whether cells [...] can be drawn, [...]."""
        ready: NDArray[np.bool_] = self._ready.reshape(-1).take(cells)
        return ready

    @property
    def num_bytes(self) -> int:
        """Bytes that are set aside."""
        stores = [store for stores in self._flat_stores.values() for store in stores]
        return int(self._ready.nbytes + sum(store.num_bytes for store in stores))

    def state(self) -> dict[str, Any]:
        """Returns everything that was inserted and is still there."""
        rows = self.streams.num_used_rows
        return {
            "streams": self.streams.state(),
            "like": self._like,
            "ready": self._ready[:, :rows].copy() if self._stores else None,
            "stores": {name: map_tree(lambda store: store.state(rows), tree) for name, tree in self._stores.items()},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned."""
        if not state["like"]:
            return
        self._set_aside(SampleBatch(state["like"]))
        self.streams.load_state(state["streams"])
        for name, stores in self._stores.items():
            map_tree(lambda store, saved: store.load_state(saved), stores, state["stores"][name])
        self._ready[:, : state["ready"].shape[1]] = state["ready"]
        self.num_ready = int(np.count_nonzero(self._ready))


def _leaves(tree: Any) -> list[Any]:
    """Returns a tree's leaves, fast for the commonest one, which is an array."""
    return [tree] if isinstance(tree, np.ndarray) else leaves(tree)
