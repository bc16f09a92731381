"""A custom algorithm: advantage-weighted regression, all of it in this file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlrun.plugin import (
    Algorithm,
    BroadcastWeights,
    ComputeAdvantages,
    ConcatBatches,
    Flow,
    Fraction,
    Loss,
    MergeFilters,
    Metric,
    NonNegativeFloat,
    OnPolicyConfig,
    Operator,
    PositiveFloat,
    PositiveInt,
    SampleBatch,
    Standardize,
    StatefulOperator,
    Trainee,
    TrainOnBatch,
    masked_mean,
    summed_value_losses,
)


class AWRConfig(OnPolicyConfig):
    """Settings of AWR."""

    num_epochs: PositiveInt = 5
    """Passes over each batch."""
    minibatch_size: PositiveInt = 256
    """Steps in a minibatch."""
    gae_lambda: Fraction = 0.95
    """Weight between one-step (0) and Monte Carlo (1) advantages."""
    temperature: PositiveFloat = 0.5
    """Divisor of the standardized advantages before they become weights."""
    kl_target: PositiveFloat = 0.01
    """Mean KL divergence of an update that the learning rate is adapted to."""
    max_weight: PositiveFloat = 20.0
    """Bound of the weights."""
    vf_loss_coeff: NonNegativeFloat = 0.5
    """Weight of the value loss."""


class ExponentialWeights(Operator):
    """Adds `weights` [T, B]: how much each action is worth imitating.

    Args:
        temperature: Temperature of the exponential of advantages.
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
        weights = np.exp(np.minimum(exponents, np.log(self.max_weight))).astype(
            np.float32
        )
        return SampleBatch(item, weights=weights)


class AdaptLearningRate(StatefulOperator):
    """Changes the learning rate by a factor of 1.5 if the KL divergence is off.

    Args:
        trainee: The trainee whose learning rate changes.
        kl_target: The rate rises if the mean KL divergence is below half of this, and
            falls if it is above twice this.
    """

    def __init__(self, trainee: Trainee, kl_target: float) -> None:
        self.trainee = trainee
        self.kl_target = kl_target

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {"kl_target": self.kl_target}

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the batch as it is."""
        kl = self.trainee.learner.last_statistics()["kl"]
        lr = self.trainee.clock.value("lr")
        if kl > 2 * self.kl_target:
            self.trainee.clock.schedules["lr"] = max(lr / 1.5, 1e-5)
        elif kl < self.kl_target / 2:
            self.trainee.clock.schedules["lr"] = min(lr * 1.5, 1e-2)
        return item

    def state(self) -> dict[str, Any]:
        """Returns the current learning rate."""
        return {"lr": self.trainee.clock.value("lr")}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the learning rate."""
        self.trainee.clock.schedules["lr"] = state["lr"]


class AWR(Algorithm[AWRConfig]):
    """Imitates its own better actions (arXiv:1910.00177, without a replay)."""

    Config = AWRConfig
    learner_metrics = (
        Metric("policy_loss", "", "Negative weighted log-likelihood of the actions"),
        Metric("value_loss", "", "Mean squared error of the values"),
        Metric("entropy", "nats", "Mean entropy of the action distribution"),
        Metric(
            "kl",
            "nats",
            "Mean KL divergence of the policy from the one before the update",
        ),
        Metric("grad_norm", "", "Norm of the gradient before clipping"),
    )

    def loss(
        self, outputs: Any, batch: SampleBatch, scheduled: Mapping[str, Any]
    ) -> Loss:
        """Weighted log-likelihood (eq. 10) and squared error of the values, [S, L]."""
        valid = batch["valid"].float()
        log_probs = outputs.distribution.log_prob(batch["actions"])
        policy_loss = -masked_mean(batch["weights"] * log_probs, valid)
        log_ratio = (log_probs - batch["logp"]) * valid
        errors = (outputs.values - batch["value_targets"]).square()
        value_loss, value_losses = summed_value_losses(outputs, batch, errors, valid)
        return Loss(
            total=policy_loss + self.config.vf_loss_coeff * value_loss,
            statistics={
                "policy_loss": policy_loss,
                **value_losses,
                "entropy": masked_mean(outputs.distribution.entropy(), valid),
                # k3 of http://joschu.net/blog/kl-approx.html
                "kl": masked_mean(log_ratio.exp() - 1 - log_ratio, valid),
            },
        )

    def learn(self, items: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """PPO's dataflow with two operators of our own in it."""
        config = self.config
        return (
            items.for_each(
                ComputeAdvantages(
                    config.gamma, config.gae_lambda, config.reward_streams
                )
            )
            .combine(ConcatBatches(config.train_batch_size))
            .for_each(Standardize("advantages"))
            .for_each(ExponentialWeights(config.temperature, config.max_weight))
            .for_each(
                TrainOnBatch(
                    trainee,
                    num_epochs=config.num_epochs,
                    minibatch_size=config.minibatch_size,
                )
            )
            .for_each(AdaptLearningRate(trainee, config.kl_target))
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )
