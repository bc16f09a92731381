"""Losses of estimated returns and of their distributions, row by row (torch).

They are written with tensor methods only and look at no values, so they can be traced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def huber(errors: Tensor) -> Tensor:
    """Returns half the square of errors up to 1 in size, and their size less one half beyond, of any shape.

    Source:
        Huber, "Robust estimation of a location parameter", 1964; with bound 1 the clipped error of Mnih et al.,
        "Human-level control through deep reinforcement learning", 2015.
    """
    distance = errors.abs()
    return errors.square().clamp(max=1.0) * 0.5 + (distance - 1.0).clamp(min=0.0)


def projected(probabilities: Tensor, atoms: Tensor, support: Tensor) -> Tensor:
    """Returns a distribution over any atoms as one over evenly spaced ones.

    The probability of each atom goes to its two neighbours in the support, to the nearer one more; beyond the ends all
    of it goes to the end.

    Args:
        probabilities: Of the atoms, [..., K].
        atoms: Where they are, [..., K].
        support: Where the evenly spaced ones are, ascending, [M].

    Returns:
        Probabilities of the support, [..., M].

    Source:
        Bellemare et al., arXiv:1707.06887, eq. 7.
    """
    spacing = (support[-1] - support[0]) / (len(support) - 1)
    inside = atoms.maximum(support[0]).minimum(support[-1])
    shares = (1.0 - (inside.unsqueeze(-1) - support).abs() / spacing).clamp(min=0.0)
    return (probabilities.unsqueeze(-1) * shares).sum(-2)


def cross_entropy(logits: Tensor, probabilities: Tensor) -> Tensor:
    """Returns the cross-entropy of a target distribution and logits [..., K], as [...]."""
    return -(probabilities * logits.log_softmax(-1)).sum(-1)


def entropy(probabilities: Tensor) -> Tensor:
    """Returns the entropy of distributions [..., K] in nats, as [...]; impossible atoms count nothing."""
    return -(probabilities * probabilities.clamp(min=1e-12).log()).sum(-1)


def quantile_huber(quantiles: Tensor, targets: Tensor) -> Tensor:
    """Returns how badly quantiles describe a sample of targets.

    The i-th of N quantiles stands for the middle of the i-th of N equal shares of probability, (2 i + 1) / (2 N).

    Args:
        quantiles: The estimates, [..., N].
        targets: The sample, [..., M].

    Returns:
        The sum over quantiles of the mean over targets, [...].

    Source:
        Dabney et al., arXiv:1710.10044, eq. 10 with bound 1.
    """
    number = quantiles.shape[-1]
    middles = (quantiles.new_ones(number).cumsum(-1) - 0.5) / number
    errors = targets.unsqueeze(-2) - quantiles.unsqueeze(-1)
    weights = (middles.unsqueeze(-1) - (errors < 0).float()).abs()
    return (weights * huber(errors)).mean(-1).sum(-1)
