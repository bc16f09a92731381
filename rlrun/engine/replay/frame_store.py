"""Storage of frame stacks in a replay buffer, which keeps each frame only once (NumPy)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from typing_extensions import override

from rlrun.engine.replay.stores import Allocate, Indices, Store


class FrameStore(Store):
    """Stores only the newest frame of each stack, and rebuilds a stack from the frames of preceding rows.

    Each written stack is compared with the preceding stack, shifted by one frame. Where they differ (an episode's first
    stack, or the first after a gap), the stack's older frames are stored too. Reads thus return exactly the written
    stacks, for any env. Observations that are not frame stacks are stored correctly too, but cost more memory.

    Reading a row uses up to `num_frames` - 1 preceding rows. A row must not be read once any of those
    preceding rows has been overwritten.
    """

    def __init__(self, shape: tuple[int, int, int], inner: tuple[int, ...], dtype: DTypeLike, new: Allocate) -> None:
        """Allocates the arrays of the frames.

        Args:
            shape: Workers, rows, and env slots of each worker.
            inner: Shape of a stack: number of frames (the oldest first), then the shape of a frame.
            dtype: Type of the pixels.
            new: Allocator of zero-filled arrays.
        """
        self.num_frames = inner[0]
        self._shape = shape
        self._frames = new((*shape, *inner[1:]), dtype)
        self._flat = self._frames.reshape(-1, *inner[1:])
        # For each row, the length r of the run of shifted stacks that ends there: the newest r of a stack's older
        # frames are in the preceding rows; the others are in `_older`, for the row r rows back, where the run begins.
        self._runs = new(shape, np.uint8)
        self._flat_runs = self._runs.reshape(-1)
        self._older: dict[int, NDArray[Any]] = {}

    @override
    def write(self, worker: int, rows: slice | Indices, slots: slice, leaf: NDArray[Any], *, continues: bool) -> None:
        """Stores the newest frame of each stack, or all frames of a stack that does not continue the previous one."""
        numbers: Indices = np.arange(rows.start, rows.stop, dtype=np.int64) if isinstance(rows, slice) else rows
        runs = np.zeros(leaf.shape[:2], np.uint8)
        if continues:
            runs[0] = self._runs[worker, numbers[0], slots]
        words = _words(leaf)
        is_shifted = (words[1:, :, :-1] == words[:-1, :, 1:]).all(axis=(2, 3))
        for t, same in enumerate(is_shifted):
            runs[t + 1] = np.where(same, np.minimum(runs[t] + 1, self.num_frames - 1), 0)
        if continues:
            numbers, leaf, runs = numbers[1:], leaf[1:], runs[1:]
        _, num_rows, columns = self._shape
        indices: Indices = (worker * num_rows + numbers[:, None]) * columns + np.arange(slots.start, slots.stop)
        if self._older:
            for index in indices.ravel().tolist():
                self._older.pop(index, None)
        self._frames[worker, numbers, slots] = leaf[:, :, -1]
        self._runs[worker, numbers, slots] = runs
        for t, column in zip(*(runs == 0).nonzero(), strict=True):
            self._older[int(indices[t, column])] = leaf[t, column, :-1].copy()

    @override
    def read(self, indices: Indices) -> NDArray[Any]:
        flat = indices.reshape(-1)
        runs = self._flat_runs.take(flat)
        stacks = self._flat.take(self._earlier(flat[:, None], np.arange(self.num_frames - 1, -1, -1)), axis=0)
        for i in (runs < self.num_frames - 1).nonzero()[0]:
            run = int(runs[i])
            older = self._older[int(self._earlier(flat[i], run))]
            stacks[i, : self.num_frames - 1 - run] = older[run:]
        return stacks.reshape(*indices.shape, *stacks.shape[1:])

    def _earlier(self, indices: Indices, rows: int | Indices) -> Indices:
        _, num_rows, columns = self._shape
        within: Indices = indices % (num_rows * columns)
        earlier: Indices = (within - rows * columns) % (num_rows * columns)
        return indices - within + earlier

    @property
    @override
    def num_bytes(self) -> int:
        """Number of bytes allocated for all frames, including the older frames of stacks at episode starts."""
        return self._frames.nbytes + self._runs.nbytes + sum(older.nbytes for older in self._older.values())

    @override
    def state(self, rows: int) -> dict[str, Any]:
        empty = np.zeros((0, self.num_frames - 1, *self._frames.shape[3:]), self._frames.dtype)
        return {
            "frames": self._frames[:, :rows].copy(),
            "runs": self._runs[:, :rows].copy(),
            "whole": np.array(list(self._older), np.int64),
            "older": np.array(list(self._older.values())) if self._older else empty,
        }

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        frames = state["frames"]
        self._frames[:, : frames.shape[1]] = frames
        self._runs[:, : frames.shape[1]] = state["runs"]
        self._older = {
            index: older.copy() for index, older in zip(state["whole"].tolist(), state["older"], strict=True)
        }


def _words(stacks: NDArray[Any]) -> NDArray[Any]:
    """Reinterprets frames as wide unsigned integers for fast comparison, [N, B, frames, words]."""
    flat = np.ascontiguousarray(stacks).reshape(*stacks.shape[:3], -1)
    size = next(size for size in (8, 4, 2, 1) if flat.shape[-1] * flat.itemsize % size == 0)
    return flat.view(f"u{size}")
