"""Logarithm of the standard normal cumulative distribution function, accurate far into the tails (NumPy)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_FAR = -20.0
"""Bound below which the asymptotic series is exact to the last digits; above it, `erfc` does not underflow."""


def log_normal_cdf(z: NDArray[np.floating]) -> NDArray[np.float64]:
    """Returns the logarithm of the standard normal cumulative distribution function at N numbers, [N].

    Source:
        Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.2.12, for the tail.

    Examples:
        >>> log_normal_cdf(np.array([0.0, -40.0])).round(3).tolist()
        [-0.693, -804.608]
    """
    return np.array([_log_normal_cdf(float(value)) for value in z])


def _log_normal_cdf(z: float) -> float:
    if z > _FAR:
        return math.log(0.5 * math.erfc(-z / math.sqrt(2)))
    inverse = 1 / (z * z)
    series = 1 - inverse * (1 - 3 * inverse * (1 - 5 * inverse))
    return -0.5 * z * z - math.log(-z) - 0.5 * math.log(2 * math.pi) + math.log(series)
