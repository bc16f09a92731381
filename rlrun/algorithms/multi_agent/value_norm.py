"""Value normalization by running moments of the value targets, kept as parameters (torch).

The moments are three numbers: the running mean m of targets, the running mean s of squared targets, and the total
weight w of both. All start at zero; dividing by w, as in m / w and s / w, removes the resulting bias. A value network
outputs normalized values v, which correspond to v * sqrt(s / w - (m / w)^2) + m / w on the scale of rewards. Before the
first targets, values are not normalized.

Source:
    Yu et al., arXiv:2103.01955, section 5.1, with the running means of their code. Unlike PopArt, the last layer is not
    rescaled.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.multi_agent.state_value_recording import LEAST_VARIANCE
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs

NETWORKS = "networks."
"""Name prefix of the parameters that are trained by gradients."""

MOMENTS = "value_moments"
"""Name of the parameter that holds the running moments, [3]."""

NUM_MOMENTS = 3
"""Size of the moments: biased mean, biased mean of squares, and debiasing weight."""

DECAY = 0.99999
"""Decay of the running means per minibatch."""


def updated(moments: Tensor, targets: Tensor, valid: Tensor) -> Tensor:
    """Returns the running moments [3], updated with the value targets of S sequences of L steps.

    Args:
        moments: Moments before the minibatch, [3].
        targets: Value targets, [S, L].
        valid: Mask of the valid steps, [S, L].
    """
    mean, square = masked_mean(targets, valid), masked_mean(targets * targets, valid)
    return moments * DECAY + torch.stack([mean, square, torch.ones_like(mean)]) * (1 - DECAY)


def mean_and_deviation(moments: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the mean and standard deviation of the value targets, each a scalar; 0 and 1 before the first targets."""
    weight = moments[2]
    known = weight > 0
    divisor = torch.where(known, weight, torch.ones_like(weight))
    mean = moments[0] / divisor
    variance = (moments[1] / divisor - mean * mean).clamp(min=LEAST_VARIANCE)
    return mean, torch.where(known, variance, torch.ones_like(variance)).sqrt()


def normalized(values: Tensor, moments: Tensor) -> Tensor:
    """Normalizes values [...], given in reward units, by the mean and standard deviation of the value targets."""
    mean, deviation = mean_and_deviation(moments)
    return (values - mean) / deviation


@dataclass(frozen=True)
class StateValueOutputs(ActorCriticOutputs):
    """Actor-critic outputs whose `values` are normalized.

    Attributes:
        moments: Running mean, mean square and total weight of the value targets, [3].
    """

    moments: Tensor

    @property
    @override
    def values_of_rewards(self) -> Tensor:
        mean, deviation = mean_and_deviation(self.moments)
        return self.values * deviation + mean
