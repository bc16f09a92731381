"""Metrics that the losses of several algorithms report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.functional.value_estimates import explained_variance
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

GRAD_NORM = Metric("grad_norm", "", "Norm of the gradient before clipping")
ENTROPY = Metric("entropy", "nats", "Mean entropy of the action distribution")
KL = Metric("kl", "nats", "Mean KL divergence of the current policy from the policy before the update")
KL_PENALTY_COEFF = Metric("learner/kl_penalty_coeff", "", "Weight of PPO's KL penalty, if any, after the last update")
CLIP_FRACTION = Metric("clip_fraction", "", "Fraction of steps whose probability ratio is beyond clip_param")
MEAN_RATIO = Metric("mean_ratio", "", "Mean importance ratio of the learner's policy to the behavior policy")

POLICY_GRADIENT_METRICS = (
    Metric("policy_loss", "", "Loss of the policy"),
    Metric("value_loss", "", "Mean squared error of the values", mode="min"),
    ENTROPY,
    GRAD_NORM,
)

TD_METRICS = (
    Metric("loss", "", "TD loss, importance-weighted if the replay is prioritized", mode="min"),
    Metric("q_mean", "", "Mean Q value of the actions taken"),
    Metric("td_error", "", "Mean absolute TD error", mode="min"),
    GRAD_NORM,
)


def td_statistics(loss: Tensor, values: Tensor, errors: Tensor, valid: Tensor) -> dict[str, Tensor]:
    """Statistics of a TD loss for the metrics `TD_METRICS`: loss, mean Q value, and mean absolute TD error.

    Args:
        loss: Scalar loss, [].
        values: Q values of the actions taken, [S, L].
        errors: Absolute TD errors, [S, L].
        valid: Mask of the valid steps, [S, L].
    """
    return {"loss": loss, "q_mean": masked_mean(values, valid), "td_error": masked_mean(errors, valid)}


def value_statistics(values: Tensor, targets: Tensor, valid: Tensor) -> dict[str, Tensor]:
    """Statistics of a value loss for the metrics `VALUE_METRICS`: mean value and explained variance.

    Args:
        values: Values of the observations, [S, L].
        targets: Value targets, [S, L].
        valid: Mask of the valid steps, [S, L].
    """
    values = values.detach()
    return {
        "value_mean": masked_mean(values, valid),
        "explained_variance": explained_variance(values, targets, valid),
    }
