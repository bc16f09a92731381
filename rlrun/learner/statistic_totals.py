"""Adds up what minibatches measure, on the device (torch)."""

from __future__ import annotations

from torch import Tensor


class StatisticTotals:
    """Sums of statistics since they were last taken; adding to them waits for nothing."""

    def __init__(self) -> None:
        self._totals: dict[tuple[str, ...], tuple[Tensor, int]] = {}

    def add(self, names: tuple[str, ...], measured: Tensor) -> None:
        """Adds the statistics of one minibatch, [number of names]."""
        total, count = self._totals.get(names, (None, 0))
        self._totals[names] = (measured.clone() if total is None else total.add_(measured), count + 1)

    def total_of(self, statistic: str) -> tuple[float, int]:
        """Returns a statistic's sum and count; waits for the device."""
        found = [(total[names.index(statistic)], n) for names, (total, n) in self._totals.items() if statistic in names]
        return sum(float(total) for total, _ in found), sum(count for _, count in found)

    def take(self) -> dict[str, float]:
        """Returns the means of all statistics since the last call, and starts them afresh."""
        sums: dict[str, tuple[float, int]] = {}
        for names, (total, count) in self._totals.items():
            for name, mean in zip(names, (total / count).tolist(), strict=True):
                before, counted = sums.get(name, (0.0, 0))
                sums[name] = before + mean * count, counted + count  # exact in double precision
        self._totals.clear()
        return {name: total / count for name, (total, count) in sums.items()}
