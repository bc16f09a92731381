"""Losses for TD errors: Huber loss or squared error of Q values, and losses for return distributions (torch).

They use tensor methods only and do not branch on values, so they can be traced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rlrun.algorithms.loss_metrics import TD_METRICS
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.settings.config import ConfigModel, PositiveFloat
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor


BEYOND_HUBER = "huber_excess"
"""Name of the statistic of TD errors beyond the bound of the Huber loss."""

HUBER_METRICS = (
    *TD_METRICS,
    Metric(BEYOND_HUBER, "", "Fraction of TD errors beyond the bound `huber`; 0 with a squared error"),
)
"""`TD_METRICS`, and the statistic of the Huber loss."""


class HuberSettings(ConfigModel):
    """Mixin for configs of value methods with scalar TD errors: settings of the Huber loss."""

    huber: PositiveFloat | None = None
    """Bound of the Huber loss of TD errors, beyond which the loss is linear; null for the squared error. The squared
    error learns the mean return. A bound keeps single large errors from moving the network far, and learns something
    between the mean and the median if many errors are beyond it."""


def huber(errors: Tensor, bound: float | None) -> Tensor:
    """Huber loss of each error: e^2 / 2 for |e| <= bound, else bound (|e| - bound / 2) (Huber, 1964).

    Args:
        errors: Errors e.
        bound: Threshold of the Huber loss; None for the squared error e^2 / 2.
    """
    if bound is None:
        return errors.square() * 0.5
    distances = errors.abs()
    within = distances.clamp(max=bound)
    return within * (distances - 0.5 * within)


def huber_excess(distances: Tensor, valid: Tensor, bound: float | None) -> dict[str, Tensor]:
    """Statistic for `HUBER_METRICS`: share of TD errors beyond the threshold of the Huber loss; 0 for squared error.

    Args:
        distances: Absolute TD errors, [S, L].
        valid: Mask of the valid steps, [S, L].
        bound: Threshold of the Huber loss; None for the squared error.
    """
    beyond = distances.new_zeros(()) if bound is None else masked_mean((distances > bound).float(), valid)
    return {BEYOND_HUBER: beyond}


def projected(probabilities: Tensor, atoms: Tensor, support: Tensor) -> Tensor:
    """Projects a categorical distribution onto a fixed support of evenly spaced atoms (C51).

    Each atom's probability is split linearly between its two neighbors in the support; an atom outside the support's
    range gives its probability to the nearest end.

    Args:
        probabilities: Probabilities of the atoms, [..., K].
        atoms: Values of the atoms, [..., K].
        support: Values of the evenly spaced atoms, ascending, [M].

    Returns:
        Probabilities on the support, [..., M].

    Source:
        Bellemare et al., arXiv:1707.06887, eq. 7.
    """
    last = len(support) - 1
    inside = atoms.maximum(support[0]).minimum(support[-1])
    per_unit = last / (support[-1] - support[0])
    positions = (inside - support[0]) * per_unit
    if positions.is_cuda:  # scatter adds in any order on GPUs, so results would differ between runs
        places = (support - support[0]) * per_unit
        shares = (1.0 - (positions.unsqueeze(-1) - places).abs()).clamp(min=0.0)
        return (probabilities.unsqueeze(-1) * shares).sum(-2)
    lower = positions.clamp(max=last - 1).long()
    upper_part = probabilities * (positions - lower)
    none = probabilities.new_zeros((*probabilities.shape[:-1], last + 1))
    return none.scatter_add(-1, lower, probabilities - upper_part).scatter_add(-1, lower + 1, upper_part)


def cross_entropy(logits: Tensor, probabilities: Tensor) -> Tensor:
    """Cross-entropy [...] between target probabilities [..., K] and logits [..., K]."""
    return -(probabilities * logits.log_softmax(-1)).sum(-1)


def entropy(probabilities: Tensor) -> Tensor:
    """Entropy [...] of distributions [..., K], in nats."""
    return -(probabilities * probabilities.clamp(min=1e-12).log()).sum(-1)


def quantile_huber(quantiles: Tensor, targets: Tensor, fractions: Tensor | None = None) -> Tensor:
    """Quantile Huber loss (QR-DQN, IQN).

    Without fractions, the i-th of N estimates (from 0) belongs to the quantile midpoint (2 i + 1) / (2 N).

    Args:
        quantiles: Estimated quantiles, [..., N].
        targets: Samples of the target distribution, [..., M].
        fractions: Fractions of the estimated quantiles, [..., N]; None for midpoints.

    Returns:
        The sum over quantiles of the mean over targets, [...].

    Source:
        Dabney et al., arXiv:1710.10044, eq. 10 with kappa = 1; arXiv:1806.06923, eq. 3.
    """
    from rlrun.engine.learner.executors.own_operations import QuantileHuber

    number = quantiles.shape[-1]
    if fractions is None:
        fractions = (quantiles.new_ones(number).cumsum(-1) - 0.5) / number
    rows = np.broadcast_shapes(quantiles.shape[:-1], targets.shape[:-1])
    operands = (
        each.expand(*rows, each.shape[-1]).reshape(-1, each.shape[-1]) for each in (quantiles, fractions, targets)
    )
    losses: Tensor = QuantileHuber.apply(*operands)
    return losses.view(*rows, number).sum(-1)
