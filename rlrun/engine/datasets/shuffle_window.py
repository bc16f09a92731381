"""Random sampling from a data set: from the whole set, or from a moving window of files if the set is too large."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.transitions import DataView
from rlrun.engine.functional.saved_numbers import as_count

ViewFactory = Callable[[DataSet], DataView]
"""Chooses how a data set is read: as steps, transitions or sequences (`rlrun.engine.datasets.transitions`)."""


class ShuffleWindow:
    """Sampler that draws transitions or sequences uniformly with replacement from a window of a data set.

    The window is the whole set, or W of its files if this machine's cache cannot hold copies of all. Each file holds
    complete episodes. Each time 1/W of the window's transitions have been drawn, the next file in a random order
    replaces the oldest one. In expectation, each transition is thus drawn once while its file is in the window,
    whatever the sizes of the files.

    Args:
        data: The data set.
        view: Function that reads a data set as transitions or sequences, such as `Transitions`.
    """

    def __init__(self, data: DataSet, view: ViewFactory) -> None:
        self._data = data
        self._make_view = view
        self._size = data.blocks_at_once
        self._blocks: list[int] = []
        self._next: list[int] = []
        self._drawn = 0
        self._view: DataView | None = None

    def draw(self, number: int, generator: np.random.Generator) -> SampleBatch:
        """Draws `number` transitions or sequences of L steps each, [number, L, ...].

        Once enough items have been drawn, it also replaces the window's oldest file with the next one; see the class.
        """
        if self._view is None:
            self._view = self._make_view(self._data if self._size is None else self._part(self._size, generator))
        batch = self._view.gather(generator.integers(len(self._view), size=number))
        if self._size is not None:
            self._drawn += number
            if self._drawn * self._size >= len(self._view):
                self._drop_block()
        return batch

    def _part(self, size: int, generator: np.random.Generator) -> DataSet:
        """Returns the blocks in the window, after filling it up."""
        while len(self._blocks) < size:
            if not self._next:
                outside = np.setdiff1d(np.arange(len(self._data.manifest.files)), self._blocks)
                self._next = generator.permutation(outside).tolist()
            self._blocks.append(self._next.pop(0))
        return self._data.part(self._blocks)

    def _drop_block(self) -> None:
        self._data.release(self._blocks.pop(0))
        self._drawn, self._view = 0, None

    def state(self) -> dict[str, Any]:
        """Returns the window's files and number of draws for checkpoints; empty if the window is the whole set."""
        if self._size is None:
            return {}
        return {
            "size": self._size,
            "blocks": np.array(self._blocks, np.int64),
            "next": np.array(self._next, np.int64),
            "drawn": self._drawn,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the window from `state()`, with the size that it had then, so that the next draws are the same.

        Raises:
            ValueError: The state does not belong to a window of this data set.
        """
        self._view = None
        self._size = None
        if not state:
            return
        self._size, self._drawn = as_count(state["size"]), as_count(state["drawn"])
        self._blocks, self._next = (list(map(as_count, state[name])) for name in ("blocks", "next"))
        blocks, number = [*self._blocks, *self._next], len(self._data.manifest.files)
        is_known = len(set(blocks)) == len(blocks) and max(blocks, default=0) < number
        if not (is_known and len(self._blocks) <= self._size and 0 < self._size < number):
            raise ValueError(
                f"a saved window of {number} blocks does not match size {self._size} and blocks {self._blocks}"
            )
