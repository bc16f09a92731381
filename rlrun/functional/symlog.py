"""Numbers of any size as numbers of moderate size, and as distributions over bins (torch).

They are written with tensor methods only and look at no values, so they can be traced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_EXPONENT = 20.0
"""The outermost bins stand for symexp(20), about 485 million, and its negative."""


def symlog(x: Tensor) -> Tensor:
    """Returns sign(x) log(1 + |x|), of any shape (Hafner et al., arXiv:2301.04104, eq. 1)."""
    return x.sign() * x.abs().log1p()


def symexp(x: Tensor) -> Tensor:
    """Returns sign(x) (exp(|x|) - 1), the inverse of `symlog`, of any shape (arXiv:2301.04104, eq. 1)."""
    return x.sign() * x.abs().expm1()


def symlog_of_array(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns what `symlog` does, of an array (NumPy)."""
    result: NDArray[np.float32] = np.sign(x) * np.log1p(np.abs(x))
    return result


def symexp_bins(number: int) -> NDArray[np.float32]:
    """Returns bins that lie closer together towards 0, ascending and symmetric, [number].

    Args:
        number: How many, an odd number: the one in the middle is 0.

    Source:
        Hafner et al., arXiv:2301.04104, eq. 10.
    """
    positive = np.expm1(np.linspace(0, LARGEST_EXPONENT, number // 2 + 1)[1:])
    return np.concatenate([-positive[::-1], [0.0], positive]).astype(np.float32)


def two_hot(x: Tensor, bins: Tensor) -> Tensor:
    """Returns numbers as the distributions over their two neighbouring bins that have them as means.

    Args:
        x: The numbers, [...]; beyond the outermost bins they count as those.
        bins: Ascending, [M].

    Returns:
        Probabilities, [..., M].

    Source:
        Hafner et al., arXiv:2301.04104, eq. 9.
    """
    import torch

    # Which part of each gap between bins lies below the number: 1 up to its own gap, 0 behind it.
    below = ((x.unsqueeze(-1) - bins[:-1]) / (bins[1:] - bins[:-1])).clamp(0.0, 1.0)
    all_of_it = torch.ones_like(below[..., :1])
    return torch.cat([all_of_it, below], -1) - torch.cat([below, torch.zeros_like(all_of_it)], -1)


def mean_of_bins(probabilities: Tensor, bins: Tensor) -> Tensor:
    """Returns the means of distributions [..., M] over symmetric bins [M], as [...].

    Bins of opposite sign are added up in pairs, so that a uniform distribution has the mean 0 exactly.
    """
    half = bins.shape[0] // 2
    surplus = probabilities[..., half + 1 :] - probabilities[..., :half].flip(-1)
    return (surplus * bins[half + 1 :]).sum(-1)
