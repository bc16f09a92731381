"""PPO's penalty on the KL divergence, for batches of tensors on a device."""

from __future__ import annotations

import torch
from typing_extensions import override

from rlrun.algorithms.kl_penalty import COLUMN, KLPenalty
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Operator


class KLPenaltyOnDevice(Operator):
    """Adds the current weight of the KL penalty to a batch on a device; see `KLPenalty`, which holds the weight."""

    declared_metrics = KLPenalty.declared_metrics

    def __init__(self, sibling: KLPenalty) -> None:
        self.sibling = sibling

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the batch with the weight at each step, [T, B]."""
        return SampleBatch(item, **{COLUMN: torch.full_like(item["rewards"], self.sibling.coeff)})

    @override
    def metrics(self) -> dict[str, float]:
        """Returns the current weight as a metric."""
        return self.sibling.metrics()
