"""An algorithm of one's own: advantage-weighted regression, all of it in this file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlrun.algorithm import Algorithm
from rlrun.algorithms.settings_on_policy import OnPolicyConfig
from rlrun.config import Fraction, NonNegativeFloat, PositiveFloat, PositiveInt
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow, Operator
from rlrun.flow.operators.advantages import ComputeAdvantages, Standardize
from rlrun.flow.operators.batches import ConcatBatches
from rlrun.flow.operators.training import TrainOnBatch
from rlrun.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.flow.trainee import Trainee
from rlrun.functional.masked import masked_mean
from rlrun.learner.objective import Loss
from rlrun.metric import Metric


class AWRConfig(OnPolicyConfig):
    """Settings of AWR."""

    num_epochs: PositiveInt = 5
    """Passes over each batch."""
    minibatch_size: PositiveInt = 256
    """Steps in a minibatch."""
    gae_lambda: Fraction = 0.95
    """Weight between one-step (0) and Monte Carlo (1) advantages."""
    temperature: PositiveFloat = 0.5
    """Advantages, in their standard deviations, are divided by this before they become weights."""
    max_weight: PositiveFloat = 20.0
    """Bound of the weights."""
    vf_loss_coeff: NonNegativeFloat = 0.5
    """Weight of the value loss."""


class ExponentialWeights(Operator):
    """Adds `weights` [T, B]: how much each action is worth imitating.

    Args:
        temperature: Of the exponential of advantages.
        max_weight: Bound of the weights.
    """

    def __init__(self, temperature: float, max_weight: float) -> None:
        self.temperature = temperature
        self.max_weight = max_weight

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {"temperature": self.temperature, "max_weight": self.max_weight}

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the batch with one column more."""
        exponents = item["advantages"] / self.temperature
        weights = np.exp(np.minimum(exponents, np.log(self.max_weight))).astype(np.float32)
        return SampleBatch(item, weights=weights)


class AWR(Algorithm[AWRConfig]):
    """Imitates its own actions, the better ones more, as in arXiv:1910.00177 but without a replay."""

    Config = AWRConfig
    learner_metrics = (
        Metric("policy_loss", "", "Negative weighted log-likelihood of the actions"),
        Metric("value_loss", "", "Mean squared error of the values"),
        Metric("entropy", "nats", "Mean entropy of the action distribution"),
        Metric("grad_norm", "", "Norm of the gradient before it is clipped"),
    )

    def loss(self, outputs: Any, batch: SampleBatch, scheduled: Mapping[str, Any]) -> Loss:
        """Weighted log-likelihood of the actions (eq. 10) and squared error of the values, over rows [S, L]."""
        valid = batch["valid"].float()
        log_probs = outputs.distribution.log_prob(batch["actions"])
        policy_loss = -masked_mean(batch["weights"] * log_probs, valid)
        value_loss = masked_mean((outputs.values - batch["value_targets"]).square(), valid)
        return Loss(
            total=policy_loss + self.config.vf_loss_coeff * value_loss,
            statistics={
                "policy_loss": policy_loss,
                "value_loss": value_loss,
                "entropy": masked_mean(outputs.distribution.entropy(), valid),
            },
        )

    def learn(self, items: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """PPO's dataflow with one operator of our own in it."""
        config = self.config
        return (
            items.for_each(ComputeAdvantages(config.gamma, config.gae_lambda))
            .combine(ConcatBatches(config.train_batch_size))
            .for_each(Standardize("advantages"))
            .for_each(ExponentialWeights(config.temperature, config.max_weight))
            .for_each(TrainOnBatch(trainee, num_epochs=config.num_epochs, minibatch_size=config.minibatch_size))
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )
