"""Exact confidence intervals of probabilities (Clopper-Pearson), and quantiles of Student's t distribution (NumPy)."""

from __future__ import annotations

import math

import numpy as np

_TAIL = 0.025
"""Probability beyond each end of a 95% interval."""

_HALVINGS, _MOST_TERMS = 60, 10_000
_TINY, _PRECISION = 1e-300, 1e-15

_ANGLES = 4001
"""Grid of angles from 0 to pi / 2 for the numerical integral."""


def t_quantile(degrees: float) -> float:
    """Returns the 97.5% quantile of Student's t distribution.

    It is computed by integrating the density over the angle arctan(t / sqrt(degrees)).

    Args:
        degrees: Degrees of freedom, at least 1; need not be an integer.

    Examples:
        >>> [round(t_quantile(degrees), 3) for degrees in (1, 2, 4, 8, 18, 1000)]
        [12.706, 4.303, 2.776, 2.306, 2.101, 1.962]
    """
    angles = np.linspace(0, np.pi / 2, _ANGLES)
    density = np.cos(angles) ** (degrees - 1)
    below = np.concatenate([[0], np.cumsum(density[1:] + density[:-1])])
    return math.sqrt(degrees) * math.tan(np.interp(0.95 * below[-1], below, angles))


def exact_interval(successes: int, trials: int) -> tuple[float, float]:
    """Returns the 95% confidence interval of a probability, valid for any number of trials.

    The interval covers the true probability in at least 95% of all experiments, even with few trials and near 0 and 1
    (Clopper and Pearson, 1934, Biometrika 26). The ends are quantiles of Beta(k, n - k + 1) and Beta(k + 1, n - k).

    Args:
        successes: Number of trials that succeeded, k.
        trials: Number of trials, n, at least 1.

    Examples:
        >>> [tuple(round(end, 3) for end in exact_interval(k, 10)) for k in (0, 5, 10)]
        [(0.0, 0.308), (0.187, 0.813), (0.692, 1.0)]
    """
    failures = trials - successes
    low = _beta_quantile(_TAIL, successes, failures + 1) if successes else 0.0
    high = 1.0 - _beta_quantile(_TAIL, failures, successes + 1) if failures else 1.0
    return low, high


def beta_cdf(x: float, a: float, b: float) -> float:
    """Returns the cumulative distribution function of Beta(a, b) at x, the regularized incomplete beta function.

    Args:
        x: The argument, from 0 to 1.
        a: First shape parameter, above 0.
        b: Second shape parameter, above 0.

    Source:
        The continued fraction of the NIST Digital Library of Mathematical Functions, 8.17.22.

    Examples:
        >>> round(beta_cdf(0.5, 2, 3), 4)
        0.6875
    """
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    if x > (a + 1) / (a + b + 2):  # the continued fraction converges slowly there
        return 1.0 - beta_cdf(1.0 - x, b, a)
    log_factor = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_factor) / (a * _continued_fraction(x, a, b))


def _beta_quantile(probability: float, a: float, b: float) -> float:
    """Quantile of Beta(a, b), by bisection."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if beta_cdf(middle, a, b) < probability else (low, middle)
    return 0.5 * (low + high)


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Continued fraction 1 + d_1 / (1 + d_2 / (1 + ...)) of the incomplete beta function, by Lentz' method."""
    value = ratio = 1.0
    inverse = 0.0
    for term in range(1, _MOST_TERMS):
        half = term // 2
        if term % 2:
            d = -(a + half) * (a + b + half) * x / ((a + term - 1) * (a + term))
        else:
            d = half * (b - half) * x / ((a + term - 1) * (a + term))
        inverse = 1.0 / ((1.0 + d * inverse) or _TINY)
        ratio = (1.0 + d / ratio) or _TINY
        value *= ratio * inverse
        if abs(ratio * inverse - 1.0) < _PRECISION:
            break
    return value
