"""Streams of experience as they came, the oldest overwritten by the newest (NumPy)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import leaves, map_tree
from rlrun.errors import UsageError
from rlrun.replay.cells import FLAGS, cells_for
from rlrun.replay.memory import zeros_in
from rlrun.replay.n_step import folded
from rlrun.replay.stores import Indices, Store

_NONE: Indices = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Inserted:
    """What an insertion did to a ring.

    Attributes:
        lane: Whose fragment it was.
        rows: The rows of its lane in which its observations stand, [T + 1]; there is no step in the last one yet.
        lost: Rows of the lane whose older content is gone or cannot be put together any more, in the order of the
            stream; where the ring is not full yet they held nothing.
        overwritten: Cells that could be drawn before and cannot be any more.
        ready: Cells that can be drawn from now on and could not be before.
    """

    lane: int
    rows: Indices
    lost: Indices
    overwritten: Indices
    ready: Indices


class ReplayRing:
    """Keeps each worker's fragments end to end, every observation once.

    The cells are [lanes, rows, columns]: a lane for each worker, a row for each step, a column for each of its envs.
    They are numbered through in this order. The observation behind a step is the one in the next row, which may be an
    episode's final one: that row then holds no step and is never drawn. A fragment that does not go on where the one
    before it in its lane ended (a worker was made anew) begins one row later, so that the row between closes what came
    before.

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
        self._heads = [0] * num_lanes
        self._filled = [0] * num_lanes
        self._begun = [False] * num_lanes

    def insert(self, lane: int, fragment: SampleBatch) -> Inserted:
        """Puts a fragment [T, B] behind the last one of its lane.

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
        head = self._heads[lane]
        continues = self._begun[lane] and self._continues(lane, head, fragment["obs"])
        sealed = int(self._begun[lane] and not continues)
        if sealed:
            self._close(lane, head)
        first = (head + sealed) % self.rows
        lost = sealed + length + 1 + self._reach
        overwritten = self._retire(lane, head, lost)
        own, steps = self._span(first, length + 1), self._span(first, length)
        for name in self._names:
            for store, leaf in zip(self._flat_stores[name], _leaves(fragment[name]), strict=True):
                store.write(lane, own if name == "obs" else steps, leaf, continues=continues)
        self._heads[lane] = (first + length) % self.rows
        self._filled[lane] = min(self._filled[lane] + sealed + length, self.rows)
        self._begun[lane] = True
        before = min(self.n_step - 1 + sealed, self._filled[lane] - length) if self.n_step > 1 else 0
        return Inserted(
            lane=lane,
            rows=self._row_numbers(first, length + 1),
            lost=self._row_numbers(head, lost),
            overwritten=overwritten,
            ready=self._fold(lane, (first - before) % self.rows, before + length),
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
            is_folded=self.n_step > 1,
            frame_stack=self.frame_stack,
            new=zeros_in(self.on_disk),
        )
        self._flat_stores = {name: leaves(tree) for name, tree in self._stores.items()}
        self._ready = np.zeros(shape, np.bool_)

    def _continues(self, lane: int, head: int, observations: Any) -> bool:
        """Tells whether a fragment begins with the observations that the one before it ended with, bit for bit.

        A new stream that happens to begin so cannot be told from one that goes on, by a policy no more than here.
        """
        cells = self._numbered(lane, head, np.arange(self.columns))
        pairs = zip(self._flat_stores["obs"], _leaves(observations), strict=True)
        return all(store.read(cells).tobytes() == leaf[0].tobytes() for store, leaf in pairs)

    def _close(self, lane: int, head: int) -> None:
        """Has the steps that a stream breaks off with end at its last observation, which is no end for good."""
        last = (head - 1) % self.rows
        self._cells("truncateds")[lane, last] |= ~self._cells("terminateds")[lane, last]
        for name in (*FLAGS, "rewards"):
            self._cells(name)[lane, head] = 0

    def _cells(self, name: str) -> NDArray[Any]:
        cells: NDArray[Any] = self._stores[name].cells
        return cells

    def _span(self, first: int, number: int) -> slice | Indices:
        """Returns rows that follow each other, as a slice where they lie side by side."""
        return slice(first, first + number) if first + number <= self.rows else self._row_numbers(first, number)

    def _row_numbers(self, first: int, number: int) -> Indices:
        numbers: Indices = np.arange(first, first + number)
        return numbers if first + number <= self.rows else numbers % self.rows

    def _retire(self, lane: int, first: int, number: int) -> Indices:
        """Has rows that follow each other not be drawn any more; returns the cells that could be until now."""
        if self._filled[lane] < self.rows and first + number <= self.rows:
            return _NONE  # nothing was ever there
        rows = self._span(first, number)
        where, columns = self._ready[lane, rows].nonzero()
        if not len(where):
            return _NONE
        self.num_ready -= len(where)
        self._ready[lane, rows] = False
        return self._numbered(lane, (first + where) % self.rows, columns)

    def _numbered(self, lane: int, rows: int | Indices, columns: Indices) -> Indices:
        cells: Indices = (lane * self.rows + rows) * self.columns + columns
        return cells

    def _fold(self, lane: int, first: int, number: int) -> Indices:
        """Folds the steps in rows that follow each other; returns the cells that are ready now."""
        rows = self._span(first, number)
        if self.n_step == 1:
            new = self._cells("valid")[lane, rows]
            self._ready[lane, rows] = new
        else:
            own = {name: self._cells(name)[lane, rows] for name in ("rewards", *FLAGS)}
            found = folded(**own, gamma=self.gamma, n_step=self.n_step)
            self._cells("folded_rewards")[lane, rows] = found.rewards
            self._cells("discounts")[lane, rows] = found.discounts
            self._cells("steps")[lane, rows] = found.steps
            new = found.complete & ~self._ready[lane, rows]
            self._ready[lane, rows] |= new
        where, columns = new.nonzero()
        self.num_ready += len(where)
        return self._numbered(lane, (first + where) % self.rows, columns)

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
        if self.num_lanes == 1:
            return generator.integers(self._filled[0] * self.columns, size=number)
        ends = np.cumsum(self._filled) * self.columns
        drawn = generator.integers(ends[-1], size=number)
        lanes = np.searchsorted(ends, drawn, side="right")
        per_lane = self.rows * self.columns
        cells: Indices = drawn - (ends[lanes] - np.array(self._filled)[lanes] * self.columns) + lanes * per_lane
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
            rewards, discounts = self._stores["folded_rewards"].read(cells), self._stores["discounts"].read(cells)
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
        lanes, within = np.divmod(cells // self.columns, self.rows)
        ahead = (np.array(self._heads)[lanes] - within) % self.rows
        most = [filled if filled < self.rows else self.rows - 1 - self._reach for filled in self._filled]
        ahead[(ahead > np.array(most)[lanes]) | ~np.array(self._begun)[lanes]] = -1
        return ahead

    @property
    def num_bytes(self) -> int:
        """Bytes that are set aside."""
        stores = [store for stores in self._flat_stores.values() for store in stores]
        return int(self._ready.nbytes + sum(store.num_bytes for store in stores))

    def state(self) -> dict[str, Any]:
        """Returns everything that was inserted and is still there."""
        rows = max(self._filled) + 1
        return {
            "heads": list(self._heads),
            "filled": list(self._filled),
            "begun": list(self._begun),
            "like": self._like,
            "ready": self._ready[:, :rows].copy() if self._stores else None,
            "stores": {name: map_tree(lambda store: store.state(rows), tree) for name, tree in self._stores.items()},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""
        self._heads, self._filled = [int(head) for head in state["heads"]], [int(n) for n in state["filled"]]
        self._begun = [bool(begun) for begun in state["begun"]]
        if state["like"] is None:
            return
        self._set_aside(SampleBatch(state["like"]))
        for name, stores in self._stores.items():
            map_tree(lambda store, saved: store.load_state(saved), stores, state["stores"][name])
        self._ready[:, : state["ready"].shape[1]] = state["ready"]
        self.num_ready = int(np.count_nonzero(self._ready))


def _leaves(tree: Any) -> list[Any]:
    """Returns a tree's leaves, fast for the commonest one, which is an array."""
    return [tree] if isinstance(tree, np.ndarray) else leaves(tree)
