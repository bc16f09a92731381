"""Quantile of Student's t distribution (NumPy)."""

from __future__ import annotations

import math

import numpy as np

_ANGLES = 4001
"""Grid of angles from 0 to pi / 2 for the numerical integral."""


def t_quantile(degrees: float) -> float:
    """97.5 % quantile of Student's t, by integrating the density over the angle arctan(t / sqrt(degrees)).

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
