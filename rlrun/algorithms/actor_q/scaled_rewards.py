"""Operators that scale the rewards of minibatches by the spread of the returns collected so far (NumPy)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Operator, StatefulOperator
from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.returns import forward_discounted_sums

EPSILON = 1e-8
"""Added to the variance of returns before the square root."""


class MeasureReturns(StatefulOperator):
    """Operator on (worker index, fragment) pairs that tracks statistics of the discounted return up to each step.

    Args:
        gamma: Discount factor.
        bounds: Smallest and largest scaled return; infinite for no bounds. A bound has no effect on returns of the
            other sign.

    Source:
        XQC, arXiv:2509.25174; the bounds follow FlashSAC, arXiv:2604.04539.
    """

    def __init__(self, gamma: float, bounds: tuple[float, float]) -> None:
        self.gamma = gamma
        self.bounds = bounds
        self._moments = Moments.empty(())
        self._extremes = (0.0, 0.0)
        self._returns: dict[int | None, NDArray[np.float64]] = {}  # running returns of each worker's env slots

    @override
    def settings(self) -> dict[str, Any]:
        return {"gamma": self.gamma}

    @property
    def scale(self) -> float:
        """Divisor for rewards: the standard deviation of returns, or more if the bounds require it."""
        (low, high), (lowest, highest) = self.bounds, self._extremes
        fitting = [lowest / low if low < 0 else 0.0, highest / high if high > 0 else 0.0]
        return max(float(np.sqrt(self._moments.variance + EPSILON)), *fitting)

    @override
    def __call__(self, item: tuple[int | None, SampleBatch]) -> SampleBatch:
        """Adds the returns of a fragment [T, B] to the statistics, and returns the fragment unchanged."""
        worker, fragment = item
        valid = fragment["valid"]
        ends = (fragment["terminateds"] | fragment["truncateds"]) & valid
        rewards = np.where(valid, fragment["rewards"].astype(np.float64), 0.0)
        start = self._returns.get(worker, np.zeros(valid.shape[1]))
        sums = forward_discounted_sums(rewards, ends, valid, self.gamma, start)
        self._returns[worker] = np.where(ends[-1], 0.0, sums[-1])
        self._moments = self._moments.merged(Moments.of(sums[valid], 1))
        lowest, highest = self._extremes
        self._extremes = min(lowest, float(sums.min())), max(highest, float(sums.max()))
        return fragment

    @override
    def state(self) -> dict[str, Any]:
        """State for a checkpoint: the statistics, and the discounted return so far of each running episode."""
        returns = [[worker, sums] for worker, sums in self._returns.items()]
        return {"moments": self._moments.state(), "extremes": list(self._extremes), "returns": returns}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._moments = Moments.from_state(state["moments"])
        self._extremes = float(state["extremes"][0]), float(state["extremes"][1])
        self._returns = {worker: np.asarray(sums, np.float64) for worker, sums in state["returns"]}


class ScaleRewards(Operator):
    """Divides the rewards of minibatches by the current scale of returns.

    Args:
        measured: The operator that measures the returns.
    """

    def __init__(self, measured: MeasureReturns) -> None:
        self.measured = measured

    @override
    def settings(self) -> dict[str, Any]:
        low, high = self.measured.bounds
        return {"low": low, "high": high}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the minibatch with scaled `rewards`."""
        return SampleBatch(item, rewards=item["rewards"] / np.float32(self.measured.scale))
