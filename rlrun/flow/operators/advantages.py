"""Advantages of a fragment's actions, and their standardisation over a batch."""

from __future__ import annotations

from typing import Any

from rlrun.data.packing import Packing
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Operator
from rlrun.functional.masked import standardized
from rlrun.functional.returns import gae


class ComputeAdvantages(Operator):
    """Adds `advantages` and `value_targets` [T, B] by generalized advantage estimation (arXiv:1506.02438)."""

    def __init__(self, gamma: float, gae_lambda: float) -> None:
        self.gamma = gamma
        self.gae_lambda = gae_lambda

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {"gamma": self.gamma, "gae_lambda": self.gae_lambda}

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the fragment with two columns more."""
        rows = Packing(item["valid"], item["terminateds"], item["truncateds"])
        advantages, targets = gae(
            rows.pack(item["rewards"]),
            rows.pack(item["values"]),
            rows.pack(item["terminateds"]),
            rows.truncateds,
            self.gamma,
            self.gae_lambda,
        )
        return SampleBatch(item, advantages=rows.unpack(advantages), value_targets=rows.unpack(targets))


class Standardize(Operator):
    """Shifts and scales a column to mean 0 and standard deviation 1 over the valid steps of the batch."""

    def __init__(self, column: str) -> None:
        self.column = column

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {"column": self.column}

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the batch with that column standardised."""
        return SampleBatch(item, **{self.column: standardized(item[self.column], item["valid"])})
