"""Storage of a replay ring's columns (NumPy)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from typing_extensions import override

Indices = NDArray[np.int64]
Allocate = Callable[[tuple[int, ...], DTypeLike], NDArray[Any]]
"""Allocates zeros, in memory or in files."""


class Store(ABC):
    """One column of a ring, as an array [workers, rows, slots, ...]."""

    @abstractmethod
    def write(self, worker: int, rows: slice | Indices, slots: slice, leaf: NDArray[Any], *, continues: bool) -> None:
        """Overwrites consecutive rows.

        Args:
            worker: The worker.
            rows: Its rows, N.
            slots: Its env slots, B.
            leaf: Their new values, [N, B, ...].
            continues: Whether the first row holds its value already, as the observation that closed the rows before.
        """

    @abstractmethod
    def read(self, indices: Indices) -> NDArray[Any]:
        """Returns copies of the values at indices [...], [..., *shape]."""

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """Bytes allocated."""

    @abstractmethod
    def state(self, rows: int) -> dict[str, Any]:
        """Copies of the first rows of each worker."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> None:
        """Restores `state()`."""


class PlainStore(Store):
    """Stores every value as it is.

    Attributes:
        values: The values, [workers, rows, slots, ...].
    """

    def __init__(self, shape: tuple[int, int, int], inner: tuple[int, ...], dtype: DTypeLike, new: Allocate) -> None:
        """Allocates the store.

        Args:
            shape: Workers, rows, and env slots of each worker.
            inner: Shape of a value.
            dtype: Type of the values.
            new: Allocates zeros.
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
