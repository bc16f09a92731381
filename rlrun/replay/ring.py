"""Streams of experience as they came, the oldest overwritten by the newest (NumPy)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import leaves, map_tree
from rlrun.errors import UsageError
from rlrun.replay.n_step import folded

Indices = NDArray[np.int64]


class Inserted(NamedTuple):
    """What an insertion did to the ring's cells.

    Attributes:
        overwritten: Cells that cannot be drawn any more.
        ready: Cells that can be drawn from now on.
        positions: Where in the fragment the ready ones stand, as rows [N]; negative for steps of the one before.
        columns: Their columns in the fragment, [N].
    """

    overwritten: Indices
    ready: Indices
    positions: Indices
    columns: Indices


class ReplayRing:
    """Keeps each worker's fragments end to end, every observation once.

    The cells are [lanes, rows, columns]: a lane for each worker, a row for each step, a column for each of its envs.
    The observation behind a step is the one in the next row, which may be an episode's final one: that row then holds
    no step and is never drawn. A fragment that does not go on where the one before it in its lane ended (a worker was
    made anew) begins one row later, so that the row between closes what came before.

    A step can be drawn once all the steps that it is folded with are here.

    Attributes:
        num_ready: Steps that can be drawn.
    """

    def __init__(self, capacity: int, num_lanes: int, n_step: int, gamma: float) -> None:
        """Takes how much is kept; memory is set aside at the first insertion, when shapes are known.

        Args:
            capacity: Cells over all lanes.
            num_lanes: Workers, from whose columns the number of rows follows.
            n_step: Steps that are folded into one.
            gamma: Discount.
        """
        self.capacity = capacity
        self.num_lanes = num_lanes
        self.n_step = n_step
        self.gamma = gamma
        self.num_ready = 0
        self.rows = 0
        self.columns = 0
        self._cells: dict[str, Any] = {}
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
        length, columns = fragment["valid"].shape
        if not self._cells:
            self._set_aside(fragment, columns)
        if length + self.n_step + 2 > self.rows:
            raise UsageError(
                f"a replay of {self.capacity:,} steps has {self.rows} rows for each env and is too small for fragments "
                f"of {length}: set replay.capacity to at least "
                f"{(length + self.n_step + 2) * self.num_lanes * self.columns:,}"
            )
        observations = leaves(fragment["obs"])
        head, sealed = self._heads[lane], 0
        if self._begun[lane] and not self._continues(lane, head, observations):
            sealed = 1
            self._close(lane, head)
        first = (head + sealed) % self.rows
        own = self._row_numbers(first, length + 1)
        for cells, leaf in zip(leaves(self._cells["obs"]), observations, strict=True):
            cells[lane][own] = leaf
        steps = own[:-1]
        for name in ("rewards", "terminateds", "truncateds", "valid"):
            self._cells[name][lane][steps] = fragment[name]
        for cells, leaf in zip(leaves(self._cells["actions"]), leaves(fragment["actions"]), strict=True):
            cells[lane][steps] = leaf
        overwritten = self._row_numbers(head, sealed + length + 1)
        self._retire(lane, overwritten)
        self._heads[lane] = int(own[-1])
        self._filled[lane] = min(self._filled[lane] + sealed + length, self.rows)
        self._begun[lane] = True
        before = min(self.n_step - 1 + sealed, self._filled[lane] - length)
        ready, at = self._fold(lane, self._row_numbers(first - before, before + length))
        return Inserted(self._flat(lane, overwritten).ravel(), ready, at[0] - before, at[1])

    def _set_aside(self, fragment: SampleBatch, columns: int) -> None:
        self.columns = columns
        self.rows = self.capacity // (self.num_lanes * columns)
        shape = (self.num_lanes, self.rows, columns)
        for name in ("obs", "actions"):
            self._cells[name] = map_tree(lambda leaf: np.zeros((*shape, *leaf.shape[2:]), leaf.dtype), fragment[name])
        self._cells["rewards"] = np.zeros(shape, np.float32)
        for name in ("terminateds", "truncateds", "valid"):
            self._cells[name] = np.zeros(shape, np.bool_)
        self._cells["folded_rewards"] = np.zeros(shape, np.float32)
        self._cells["discounts"] = np.zeros(shape, np.float32)
        self._cells["steps"] = np.zeros(shape, np.uint8)
        self._ready = np.zeros(shape, np.bool_)

    def _continues(self, lane: int, head: int, observations: list[NDArray[Any]]) -> bool:
        """Tells whether a fragment begins with the observations that the one before it ended with."""
        stored = leaves(self._cells["obs"])
        return all(
            np.array_equal(cells[lane][head], leaf[0], equal_nan=leaf.dtype.kind == "f")
            for cells, leaf in zip(stored, observations, strict=True)
        )

    def _close(self, lane: int, head: int) -> None:
        """Has the steps that a stream breaks off with end at its last observation, which is no end for good."""
        last = (head - 1) % self.rows
        self._cells["truncateds"][lane][last] |= ~self._cells["terminateds"][lane][last]
        for name in ("valid", "terminateds", "truncateds"):
            self._cells[name][lane][head] = False
        self._cells["rewards"][lane][head] = 0.0

    def _row_numbers(self, first: int, number: int) -> Indices:
        return np.arange(first, first + number) % self.rows

    def _flat(self, lane: int, rows: Indices) -> Indices:
        """Returns the numbers of all cells in rows, [N, B]."""
        return ((lane * self.rows + rows) * self.columns)[:, None] + np.arange(self.columns)

    def _retire(self, lane: int, rows: Indices) -> None:
        self.num_ready -= int(self._ready[lane][rows].sum())
        self._ready[lane][rows] = False

    def _fold(self, lane: int, rows: Indices) -> tuple[Indices, tuple[Indices, Indices]]:
        """Folds the steps in rows that follow each other; returns the cells that are ready now, and where they are."""
        own = {name: self._cells[name][lane][rows] for name in ("rewards", "terminateds", "truncateds", "valid")}
        found = folded(**own, gamma=self.gamma, n_step=self.n_step)
        self._cells["folded_rewards"][lane][rows] = found.rewards
        self._cells["discounts"][lane][rows] = found.discounts
        self._cells["steps"][lane][rows] = found.steps
        new = found.complete & ~self._ready[lane][rows]
        self._ready[lane][rows] |= new
        at = new.nonzero()
        self.num_ready += len(at[0])
        cells: Indices = (lane * self.rows + rows[at[0]]) * self.columns + at[1]
        return cells, at

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
        behind = self._behind(cells, self._cells["steps"].reshape(-1)[cells])

        def rows(store: NDArray[Any], numbers: Indices) -> NDArray[Any]:
            return store.reshape(-1, *store.shape[3:]).take(numbers, axis=0)[:, None]

        obs = self._cells["obs"]
        return SampleBatch(
            obs=map_tree(lambda store: rows(store, cells), obs),
            actions=map_tree(lambda store: rows(store, cells), self._cells["actions"]),
            rewards=rows(self._cells["folded_rewards"], cells),
            discounts=rows(self._cells["discounts"], cells),
            next_obs=map_tree(lambda store: rows(store, behind), obs),
            valid=np.ones((len(cells), 1), np.bool_),
        )

    def _behind(self, cells: Indices, steps: NDArray[np.uint8]) -> Indices:
        """Returns the cells so many rows further on in the same lane and column."""
        per_lane = self.rows * self.columns
        within = cells % per_lane
        behind: Indices = cells - within + (within + steps.astype(np.int64) * self.columns) % per_lane
        return behind

    @property
    def num_bytes(self) -> int:
        """Bytes that are set aside."""
        return int(self._ready.nbytes + sum(leaf.nbytes for tree in self._cells.values() for leaf in leaves(tree)))

    def state(self) -> dict[str, Any]:
        """Returns everything that was inserted and is still there."""
        filled = max(self._filled)
        return {
            "heads": list(self._heads),
            "filled": list(self._filled),
            "begun": list(self._begun),
            "ready": self._ready[:, : filled + 1].copy() if self._cells else None,
            "cells": {
                name: map_tree(lambda leaf: leaf[:, : filled + 1].copy(), tree) for name, tree in self._cells.items()
            },
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""
        self._heads, self._filled = [int(head) for head in state["heads"]], [int(n) for n in state["filled"]]
        self._begun = [bool(begun) for begun in state["begun"]]
        if not state["cells"]:
            return
        self.columns = state["ready"].shape[2]
        self.rows = self.capacity // (self.num_lanes * self.columns)

        def whole(leaf: NDArray[Any]) -> NDArray[Any]:
            cells = np.zeros((self.num_lanes, self.rows, *leaf.shape[2:]), leaf.dtype)
            cells[:, : leaf.shape[1]] = leaf
            return cells

        self._ready = whole(state["ready"])
        self._cells = {name: map_tree(whole, tree) for name, tree in state["cells"].items()}
        self.num_ready = int(self._ready.sum())
