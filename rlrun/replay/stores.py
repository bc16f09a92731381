"""Where a ring keeps its columns: in memory or in files (NumPy)."""

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
    """Holds one column of a ring: [workers, rows, columns, ...]."""

    @abstractmethod
    def write(self, worker: int, rows: slice | Indices, slots: slice, leaf: NDArray[Any], *, continues: bool) -> None:
        """Overwrites rows that follow each other.

        Args:
            worker: Whose they are.
            rows: Which ones, N.
            slots: Of which slots, B.
            leaf: What they hold from now on, [N, B, ...].
            continues: Whether the first of them holds that already.
        """

    @abstractmethod
    def read(self, indices: Indices) -> NDArray[Any]:
        """Returns copies of what stands at indices [...], [..., *shape]."""

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """Bytes that are set aside."""

    @abstractmethod
    def state(self, rows: int) -> dict[str, Any]:
        """Returns copies of what stands in the first rows of each worker."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned."""


class PlainStore(Store):
    """Keeps every value as it comes.

    Attributes:
        values: All of them, [workers, rows, columns, ...].
    """

    def __init__(self, shape: tuple[int, int, int], inner: tuple[int, ...], dtype: DTypeLike, new: Allocate) -> None:
        """Sets memory aside.

        Args:
            shape: Workers, rows and columns.
            inner: Shape of a value.
            dtype: What it holds.
            new: Sets it aside.
        """
        self.values = new((*shape, *inner), dtype)
        self._flat = self.values.reshape(-1, *inner)

    def write(self, worker: int, rows: slice | Indices, slots: slice, leaf: NDArray[Any], *, continues: bool) -> None:
        """Copies all rows."""
        self.values[worker, rows, slots] = leaf

    def read(self, indices: Indices) -> NDArray[Any]:
        """Returns copies of the values at indices."""
        return self._flat.take(indices, axis=0)

    @property
    def num_bytes(self) -> int:
        """Bytes that are set aside."""
        return self.values.nbytes

    def state(self, rows: int) -> dict[str, Any]:
        """Returns the first rows."""
        return {"values": self.values[:, :rows].copy()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with the first rows."""
        values = state["values"]
        self.values[:, : values.shape[1]] = values
