"""PPO's penalty on the KL divergence from the policy that collected a batch, with an adaptive weight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from rlrun.algorithms.loss_metrics import KL_PENALTY_COEFF
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow, Operator, StatefulOperator
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.training import TrainOnBatch

if TYPE_CHECKING:
    from rlrun.algorithms.settings.on_policy import KLPenaltyConfig
    from rlrun.engine.flow.trainee import Trainee

COLUMN = "kl_penalty_coeff"
"""Column of a batch with the current weight of the penalty."""

RAISED, LOWERED = 1.5, 0.5
"""Factors by which the weight changes, as in RLlib; the paper doubles and halves it (arXiv:1707.06347, section 4)."""


def with_kl_penalty(flow: Flow[Any], config: KLPenaltyConfig, trainee: Trainee) -> Flow[Any]:
    """Extends a dataflow with the KL penalty's weight, added to batches as a column and adapted after each update.

    Args:
        flow: Dataflow with exactly one `ConcatBatches` and one `TrainOnBatch`.
        config: Settings of the penalty.
        trainee: The policy in training.
    """
    penalty = KLPenalty(config.coeff)
    extended = flow.with_step_after(ConcatBatches, penalty)
    assert extended is not None
    if config.target is None:
        return extended
    adapted = extended.with_step_after(TrainOnBatch, AdaptKLPenalty(trainee, penalty, config.target))
    assert adapted is not None
    return adapted


class KLPenalty(StatefulOperator):
    """Adds the current weight of the KL penalty to a batch, as a column.

    Args:
        coeff: Initial weight.

    Attributes:
        coeff: Current weight.
    """

    declared_metrics = (KL_PENALTY_COEFF,)

    def __init__(self, coeff: float) -> None:
        self.initial = coeff
        self.coeff = coeff

    @override
    def settings(self) -> dict[str, Any]:
        return {"coeff": self.initial}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the batch with the weight at each step, [T, B]."""
        return SampleBatch(item, **{COLUMN: np.full(item["valid"].shape, self.coeff, np.float32)})

    @override
    def metrics(self) -> dict[str, float]:
        """Returns the current weight as a metric."""
        return {KL_PENALTY_COEFF.name: self.coeff}

    @override
    def state(self) -> dict[str, Any]:
        return {"coeff": self.coeff}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self.coeff = float(state["coeff"])


class AdaptKLPenalty(Operator):
    """Adapts the weight of the KL penalty after each update, so that the mean KL divergence stays near a target.

    Args:
        trainee: The policy in training.
        penalty: Operator that holds the weight.
        target: Mean KL divergence over the minibatches of an update. The weight is raised if the divergence exceeds
            twice the target, and lowered if it is below half the target.

    Source:
        Schulman et al., arXiv:1707.06347, section 4.
    """

    def __init__(self, trainee: Trainee, penalty: KLPenalty, target: float) -> None:
        self.trainee = trainee
        self.penalty = penalty
        self.target = target

    @override
    def settings(self) -> dict[str, Any]:
        return {"target": self.target}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the batch unchanged."""
        kl = self.trainee.learner.last_statistics().get("kl")
        if kl is None:  # the batch had no steps
            return item
        if kl > 2 * self.target:
            self.penalty.coeff *= RAISED
        elif kl < self.target / 2:
            self.penalty.coeff *= LOWERED
        return item
