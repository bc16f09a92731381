"""Copies of batches, shuffled row indices and scheduled settings to the learner's device (torch)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlrun.engine.data.sample_batch import SampleBatch


class Staging:
    """Copies arrays to a learner's device, while the device may still be computing on earlier data.

    For CUDA, arrays are copied from pinned memory in a separate stream. The transfer of a batch thus overlaps with
    learning from the preceding batch. On the CPU, no copy is made.

    Args:
        device: Target device.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = None
        self._latest: tuple[Mapping[str, float], dict[str, Tensor]] = ({}, {})
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def batch(self, batch: SampleBatch, spare: int = 0) -> SampleBatch:
        """Copies a batch to the device, with a row of zeros added if the last minibatch needs padding (`spare` > 0).

        Columns that are tensors must already be on the device.
        """

        def padded(tensor: Tensor) -> Tensor:
            return torch.cat([tensor, torch.zeros_like(tensor[:1])]) if spare else tensor

        def moved(leaf: NDArray[Any] | Tensor) -> Tensor:
            if isinstance(leaf, Tensor):  # computed on the current stream, which alone knows when it is ready
                return padded(leaf)
            if self._stream is None:
                return padded(over_memory(leaf))
            with torch.cuda.stream(self._stream):
                return padded(self._moved(over_memory(leaf)))

        staged = batch.map(moved)
        if self._stream is not None:
            present = torch.cuda.current_stream(self._device)
            present.wait_stream(self._stream)
            staged.map(lambda leaf: leaf.record_stream(present))  # torch must not reuse the memory too early
        return staged

    def order(self, order: NDArray[np.int64]) -> Tensor:
        """Copies the shuffled row indices of an epoch to the learner's device."""
        return self._moved(torch.from_numpy(order))

    def settings(self, values: Mapping[str, float]) -> dict[str, Tensor]:
        """Returns the scheduled settings as scalar tensors on the device, by name; reused while no value changes."""
        if values != self._latest[0]:
            together = self._moved(torch.tensor(list(values.values()), dtype=torch.float32))
            self._latest = values, dict(zip(values, together.unbind(), strict=True))
        return self._latest[1]

    def _moved(self, tensor: Tensor) -> Tensor:
        if self._stream is None:
            return tensor
        return tensor.pin_memory().to(self._device, non_blocking=True)


def over_memory(array: NDArray[Any]) -> Tensor:
    """Returns a tensor that shares an array's memory; do not modify it: the array may be in Ray's object store."""
    contiguous = np.ascontiguousarray(array)
    if contiguous.flags.writeable:
        return torch.from_numpy(contiguous)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(contiguous)
