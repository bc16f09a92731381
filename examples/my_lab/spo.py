"""PPO with one changed term: Simple Policy Optimization (arXiv:2401.16025)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlrun.plugin import (
    PPO,
    Loss,
    Metric,
    PositiveFloat,
    PPOConfig,
    SampleBatch,
    fixed,
    masked_mean,
)


@fixed("SPO penalizes the ratio instead of clipping it: set eps", clip_param=0.2)
@fixed("SPO has its own penalty", kl_penalty=None)
class SPOConfig(PPOConfig):
    """Settings of SPO."""

    eps: PositiveFloat = 0.2
    """Distance of the ratio from 1 at which an action's objective is largest."""


class SPO(PPO):
    """Simple policy optimization: PPO with a penalized ratio instead of clipping."""

    Config = SPOConfig
    config: SPOConfig
    learner_metrics = (
        *(metric for metric in PPO.learner_metrics if metric.name != "clip_fraction"),
        Metric("ratio_deviation", "", "Mean distance of the probability ratio from 1"),
    )

    def loss(
        self, outputs: Any, batch: SampleBatch, scheduled: Mapping[str, Any]
    ) -> Loss:
        """Penalized surrogate, value loss and entropy bonus, [S, L]."""
        config, valid = self.config, batch["valid"].float()
        advantages = batch["advantages"]
        log_probs = outputs.distribution.log_prob(batch["actions"])
        log_ratio = (log_probs - batch["logp"]) * valid
        ratio = log_ratio.exp()
        penalty = advantages.abs() / (2 * config.eps) * (ratio - 1).square()
        policy_loss = -masked_mean(ratio * advantages - penalty, valid)
        value_loss, value_losses = self.value_losses(outputs, batch, valid)
        entropy = masked_mean(outputs.distribution.entropy(), valid)
        return Loss(
            total=policy_loss
            + config.vf_loss_coeff * value_loss
            - scheduled["entropy_coeff"] * entropy,
            statistics={
                "policy_loss": policy_loss,
                **value_losses,
                "entropy": entropy,
                "kl": masked_mean(ratio - 1 - log_ratio, valid),
                "ratio_deviation": masked_mean((ratio - 1).abs(), valid),
            },
        )
