"""Where the cells of a ring lie (NumPy)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Indices = NDArray[np.int64]
Allocate = Callable[[tuple[int, ...], DTypeLike], NDArray[Any]]
"""Sets zeros aside, in memory or elsewhere."""


class Store(ABC):
    """Holds one array for each cell of a ring: [lanes, rows, columns, ...]."""

    @abstractmethod
    def write(self, lane: int, rows: slice | Indices, slots: slice, leaf: NDArray[Any], *, continues: bool) -> None:
        """Overwrites rows that follow each other.

        Args:
            lane: Whose they are.
            rows: Which ones, N.
            slots: Of which slots, B.
            leaf: What they hold from now on, [N, B, ...].
            continues: Whether the first of them holds that already.
        """

    @abstractmethod
    def read(self, cells: Indices) -> NDArray[Any]:
        """Returns copies of what stands in cells [...], [..., *shape]."""

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """Bytes that are set aside."""

    @abstractmethod
    def state(self, rows: int) -> dict[str, Any]:
        """Returns copies of what stands in the first rows of each lane."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned."""


class PlainStore(Store):
    """Keeps every cell as it comes.

    Attributes:
        cells: All of them, [lanes, rows, columns, ...].
    """

    def __init__(self, shape: tuple[int, int, int], inner: tuple[int, ...], dtype: DTypeLike, new: Allocate) -> None:
        """Sets memory aside.

        Args:
            shape: Lanes, rows and columns.
            inner: Shape of a cell.
            dtype: What it holds.
            new: Sets it aside.
        """
        self.cells = new((*shape, *inner), dtype)
        self._flat = self.cells.reshape(-1, *inner)

    def write(self, lane: int, rows: slice | Indices, slots: slice, leaf: NDArray[Any], *, continues: bool) -> None:
        """Copies all rows."""
        self.cells[lane, rows, slots] = leaf

    def read(self, cells: Indices) -> NDArray[Any]:
        """Returns copies of cells."""
        return self._flat.take(cells, axis=0)

    @property
    def num_bytes(self) -> int:
        """Bytes that are set aside."""
        return self.cells.nbytes

    def state(self, rows: int) -> dict[str, Any]:
        """Returns the first rows."""
        return {"cells": self.cells[:, :rows].copy()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with the first rows."""
        cells = state["cells"]
        self.cells[:, : cells.shape[1]] = cells
