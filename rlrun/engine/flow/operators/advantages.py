"""Generalized advantage estimation, and standardization of advantages over a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.packing import Packing
from rlrun.engine.data.sample_batch import LOGGED, SampleBatch
from rlrun.engine.flow.flow import Operator
from rlrun.engine.functional.masked import standardized
from rlrun.engine.functional.returns import gae
from rlrun.engine.reward_streams.streams import ENV_ALONE, RewardStream, RewardStreams, weighted_advantages


class ComputeAdvantages(Operator):
    """Adds advantages and value targets to a fragment, by generalized advantage estimation (GAE).

    Source:
        Schulman et al., arXiv:1506.02438.

    For each additional reward stream, such as intrinsic rewards, columns with the stream's name as a prefix are added.
    The column `advantages` is then the weighted sum over the streams that the policy maximizes. Steps whose action was
    not chosen by the policy (column `LOGGED`) are included in the estimates, but marked invalid for the losses.

    Args:
        gamma: Discount factor of the env's rewards.
        gae_lambda: Lambda of GAE for the env's rewards, from one-step (0) to Monte Carlo (1) advantages.
        streams: Further reward streams.
    """

    def __init__(self, gamma: float, gae_lambda: float, streams: RewardStreams = ENV_ALONE) -> None:
        self.streams = streams.all(gamma, gae_lambda)

    @override
    def settings(self) -> dict[str, Any]:
        own, *further = self.streams
        names = {"further_streams": [stream.name for stream in further]} if further else {}
        return {"gamma": own.gamma, "gae_lambda": own.gae_lambda, **names}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the fragment with advantages and value targets of each stream."""
        for stream in self.streams:
            item = with_advantages(item, stream)
        found = SampleBatch(item, advantages=weighted_advantages(self.streams, item))
        logged = found.get(LOGGED)
        return found if logged is None else SampleBatch(found, valid=found["valid"] & ~logged)


def with_advantages(batch: SampleBatch, stream: RewardStream) -> SampleBatch:
    """Returns a fragment with the advantages and value targets of one reward stream added.

    A non-episodic stream bootstraps across episodes: the successor of an episode's last step is the first step of the
    slot's next episode. If the fragment ends before that step, the final observation's value is used.

    Args:
        batch: The fragment, T steps in B env slots, with the stream's rewards and values.
        stream: The stream.
    """
    valid, terminateds, truncateds = batch["valid"], batch["terminateds"], batch["truncateds"]
    if not stream.is_episodic:  # no episode ends, except at final observations without a later step
        truncateds = valid & (terminateds | truncateds) & ~_has_later_step(valid)
        terminateds = np.zeros_like(terminateds)
    rows = Packing(valid, terminateds, truncateds)
    advantages, targets = gae(
        rows.pack(batch[stream.rewards]),
        rows.pack(batch[stream.column("values")]),
        rows.pack(terminateds),
        rows.truncateds,
        stream.gamma,
        stream.gae_lambda,
    )
    found = {"advantages": rows.unpack(advantages), "value_targets": rows.unpack(targets)}
    return SampleBatch(batch, **{stream.column(name): column for name, column in found.items()})


def _has_later_step(valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask [T, B] of entries with a later valid step in their slot."""
    from_here_on = np.logical_or.accumulate(valid[::-1])[::-1]
    return np.concatenate([from_here_on[1:], np.zeros_like(valid[:1])])


class Standardize(Operator):
    """Shifts and scales a column of a batch to mean 0 and standard deviation 1 over its valid steps."""

    def __init__(self, column: str) -> None:
        self.column = column

    @override
    def settings(self) -> dict[str, Any]:
        return {"column": self.column}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the batch with the standardized column."""
        return SampleBatch(item, **{self.column: standardized(item[self.column], item["valid"])})
