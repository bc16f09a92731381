"""Sums of training statistics over minibatches, kept on the device (torch)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Totals = dict[tuple[str, ...], tuple[Any, int]]
"""Statistic sums and minibatch counts, keyed by the tuple of names computed together.

Sums are NumPy arrays on the CPU, where these are faster for a few numbers, and tensors on other devices.
"""


class StatisticTotals:
    """Sums training statistics over minibatches on the device; adding does not wait for the device."""

    def __init__(self) -> None:
        self._totals: Totals = {}
        self._before_update: Totals = {}

    def begin_update(self) -> None:
        """Marks the start of an update; `update_means` then covers the minibatches added since."""
        self._before_update = dict(self._totals)  # a shallow copy: sums never change in place

    def add(self, names: tuple[str, ...], measured: Tensor) -> None:
        """Adds the statistics of one minibatch, given as a vector with one entry per name."""
        own: Any = measured if measured.is_cuda else measured.numpy()
        total, count = self._totals.get(names, (None, 0))
        self._totals[names] = (own * 1 if total is None else total + own, count + 1)

    def to_add(self, names: tuple[str, ...], count: int) -> NDArray[np.float32]:
        """Counts `count` minibatches (CPU only); returns the sums, to which the caller must add the statistics."""
        if names not in self._totals:
            self._totals[names] = np.zeros(len(names), np.float32), 0
        total, counted = self._totals[names]
        grown: NDArray[np.float32] = total.copy()
        self._totals[names] = (grown, counted + count)
        return grown

    def total_of(self, statistic: str) -> tuple[float, int]:
        """Returns the sum of one statistic, and the number of minibatches in the sum; waits for the device."""
        found = [(total[names.index(statistic)], n) for names, (total, n) in self._totals.items() if statistic in names]
        return sum(float(total) for total, _ in found), sum(count for _, count in found)

    def sum_of(self, statistic: str) -> tuple[Tensor | float, int]:
        """Returns the sum of one statistic, a scalar on the device, and the number of minibatches in the sum."""
        found = [(total[names.index(statistic)], n) for names, (total, n) in self._totals.items() if statistic in names]
        return sum(total for total, _ in found), sum(count for _, count in found)

    def mean_since(self, before: tuple[float, int], statistic: str) -> float:
        """Returns the mean of a statistic since an earlier result `before` of `total_of`; waits for the device."""
        total, count = self.total_of(statistic)
        return (total - before[0]) / (count - before[1])

    def update_means(self) -> dict[str, float]:
        """Returns the mean of each statistic over the last update; empty after `take`."""
        added: Totals = {}
        for names, (total, count) in self._totals.items():
            before, counted = self._before_update.get(names, (None, 0))
            if count > counted:
                added[names] = (total if before is None else total - before, count - counted)
        return means(added)

    def take(self) -> dict[str, float]:
        """Returns the mean of each statistic since the last call, and resets the sums."""
        taken, self._totals, self._before_update = self._totals, {}, {}
        return means(taken)


def means(totals: Totals) -> dict[str, float]:
    """Returns the means over minibatches of all statistics, given their sums; waits for the device."""
    sums: dict[str, tuple[float, int]] = {}
    for names, (total, count) in totals.items():
        for name, mean in zip(names, (total / count).tolist(), strict=True):
            before, counted = sums.get(name, (0.0, 0))
            sums[name] = before + mean * count, counted + count  # exact in double precision
    return {name: total / count for name, (total, count) in sums.items()}
