"""Storage of single columns of a replay buffer (NumPy)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from typing_extensions import override

Indices = NDArray[np.int64]
Allocate = Callable[[tuple[int, ...], DTypeLike], NDArray[Any]]
"""Allocator of zero-filled arrays by shape and dtype, in RAM or in memory-mapped files."""


class Store(ABC):
    """Interface for storing one column of a replay buffer, with entries [workers, rows, env slots, ...]."""

    @abstractmethod
    def write(self, worker: int, rows: slice | Indices, slots: slice, leaf: NDArray[Any], *, continues: bool) -> None:
        """Overwrites consecutive rows of some of a worker's env slots.

        Args:
            worker: Index of the worker in the buffer, from 0.
            rows: The N rows to overwrite.
            slots: The B env slots to overwrite.
            leaf: New values, [N, B, ...].
            continues: Whether the first row already holds its value, which was written as the observation after the
                preceding step.
        """

    @abstractmethod
    def read(self, indices: Indices) -> NDArray[Any]:
        """Returns copies of the column's values at the given flat indices."""

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """Bytes allocated for the column."""

    @abstractmethod
    def state(self, rows: int) -> dict[str, Any]:
        """Returns copies of each worker's first `rows` rows, for a checkpoint."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the column from the dict that `state()` returned."""


class PlainStore(Store):
    """Storage of a column as one array, in which each row holds its complete value.

    Attributes:
        values: Stored values, [workers, rows, env slots, ...].
    """

    def __init__(self, shape: tuple[int, int, int], inner: tuple[int, ...], dtype: DTypeLike, new: Allocate) -> None:
        """Allocates the array of values.

        Args:
            shape: Workers, rows, and env slots of each worker.
            inner: Shape of a value.
            dtype: Type of the values.
            new: Allocator of zero-filled arrays.
        """
        self.values = new((*shape, *inner), dtype)
        self._flat = self.values.reshape(-1, *inner)

    @override
    def write(self, worker: int, rows: slice | Indices, slots: slice, leaf: NDArray[Any], *, continues: bool) -> None:
        self.values[worker, rows, slots] = leaf

    @override
    def read(self, indices: Indices) -> NDArray[Any]:
        return self._flat.take(indices, axis=0)

    @property
    @override
    def num_bytes(self) -> int:
        return self.values.nbytes

    @override
    def state(self, rows: int) -> dict[str, Any]:
        return {"values": self.values[:, :rows].copy()}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        values = state["values"]
        self.values[:, : values.shape[1]] = values
