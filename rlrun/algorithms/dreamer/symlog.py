"""Symlog transformation and two-hot encoding of numbers, as in DreamerV3 (torch).

The functions use only tensor methods and do not branch on values, so they can be traced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_EXPONENT = 20.0
"""Largest exponent of the two-hot bins: the outermost bins are at symexp(20), about 485 million, and its negative."""


def symlog(x: Tensor) -> Tensor:
    """Symmetric logarithm sign(x) log(1 + |x|) of each element (Hafner et al., arXiv:2301.04104, eq. 1)."""
    return x.sign() * x.abs().log1p()


def symexp(x: Tensor) -> Tensor:
    """Symmetric exponential sign(x) (exp(|x|) - 1) of each element, inverse of `symlog` (arXiv:2301.04104, eq. 1)."""
    return x.sign() * x.abs().expm1()


def symlog_of_array(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Symmetric logarithm sign(x) log(1 + |x|) of an array (NumPy)."""
    result: NDArray[np.float32] = np.sign(x) * np.log1p(np.abs(x))
    return result


def symexp_bins(number: int) -> NDArray[np.float32]:
    """Bins that are denser towards 0, ascending and symmetric, [number].

    Args:
        number: Number of bins, which must be odd: the middle bin is 0.

    Source:
        Hafner et al., arXiv:2301.04104, eq. 10.
    """
    positive = np.expm1(np.linspace(0, LARGEST_EXPONENT, number // 2 + 1)[1:])
    return np.concatenate([-positive[::-1], [0.0], positive]).astype(np.float32)


def two_hot(x: Tensor, bins: Tensor) -> tuple[Tensor, Tensor]:
    """Two-hot encoding of numbers: a distribution over the two neighboring bins whose mean is the number.

    Args:
        x: Numbers, [...]; clipped to the outermost bins.
        bins: Values of the bins, ascending, [M].

    Returns:
        The index of the lower bin, from 0 to M - 2, and the probability of the bin above it, [...] each.

    Source:
        Hafner et al., arXiv:2301.04104, eq. 9.
    """
    import torch

    x = x.detach().contiguous()
    lower = (torch.searchsorted(bins, x, right=True) - 1).clamp(0, bins.shape[0] - 2)
    below, above = bins[lower], bins[lower + 1]
    return lower, ((x - below) / (above - below)).clamp(0.0, 1.0)


def two_hot_cross_entropy(logits: Tensor, x: Tensor, bins: Tensor) -> Tensor:
    """Cross-entropy between the two-hot encoding of numbers and logits over bins.

    Args:
        logits: Logits of the bins, [..., M].
        x: Numbers, [...].
        bins: Values of the bins, ascending, [M].

    Returns:
        Cross-entropy in nats, [...].
    """
    import torch

    lower, share = two_hot(x, bins)
    both = logits.gather(-1, torch.stack([lower, lower + 1], -1))
    # This equals the result with log_softmax, but needs no second array as large as the logits.
    return logits.logsumexp(-1) - (1 - share) * both[..., 0] - share * both[..., 1]


def mean_of_bins(probabilities: Tensor, bins: Tensor) -> Tensor:
    """Means [...] of distributions [..., M] over symmetric bins [M].

    Bins of opposite sign are summed in pairs, so that a uniform distribution has the mean 0 exactly.
    """
    half = bins.shape[0] // 2
    surplus = probabilities[..., half + 1 :] - probabilities[..., :half].flip(-1)
    return (surplus * bins[half + 1 :]).sum(-1)
