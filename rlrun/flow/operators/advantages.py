"""Advantages of a fragment's actions, and their standardisation over a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.packing import Packing
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Operator
from rlrun.functional.masked import standardized
from rlrun.functional.returns import gae
from rlrun.policy.reward_streams import RewardStream


class ComputeAdvantages(Operator):
    """Adds `advantages` and `value_targets` [T, B] by generalized advantage estimation (arXiv:1506.02438).

    Those of a further stream of rewards get its name in front. Where a stream is not episodic, what follows an
    episode's last step is the first of the slot's next one; if the fragment has none, its final observation's value.
    """

    def __init__(self, gamma: float, gae_lambda: float, stream: RewardStream | None = None) -> None:
        self.stream = stream or RewardStream("", "rewards", gamma, gae_lambda)

    @classmethod
    def of(cls, stream: RewardStream) -> ComputeAdvantages:
        """Returns the operator for a further stream of rewards."""
        return cls(stream.gamma, stream.gae_lambda, stream)

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        stream = self.stream
        own = {"stream": stream.name, "is_episodic": stream.is_episodic} if stream.name else {}
        return {**own, "gamma": stream.gamma, "gae_lambda": stream.gae_lambda}

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the fragment with two columns more."""
        stream, valid, terminateds, truncateds = self.stream, item["valid"], item["terminateds"], item["truncateds"]
        if not stream.is_episodic:  # no end: rows of final observations are empty, but for those that nothing follows
            truncateds = valid & (terminateds | truncateds) & ~_is_followed(valid)
            terminateds = np.zeros_like(terminateds)
        rows = Packing(valid, terminateds, truncateds)
        advantages, targets = gae(
            rows.pack(item[stream.rewards]),
            rows.pack(item[stream.column("values")]),
            rows.pack(terminateds),
            rows.truncateds,
            stream.gamma,
            stream.gae_lambda,
        )
        found = {"advantages": rows.unpack(advantages), "value_targets": rows.unpack(targets)}
        return SampleBatch(item, **{stream.column(name): column for name, column in found.items()})


def _is_followed(valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether a later row of the slot holds a step, [T, B]."""
    from_here_on = np.logical_or.accumulate(valid[::-1])[::-1]
    return np.concatenate([from_here_on[1:], np.zeros_like(valid[:1])])


class WeightAdvantages(Operator):
    """Replaces `advantages` by a weighted sum of columns of advantages."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.weights = dict(weights)

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return dict(self.weights)

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the fragment with that sum."""
        parts = [np.float32(weight) * item[column] for column, weight in self.weights.items()]
        return SampleBatch(item, advantages=sum(parts[1:], parts[0]))


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
