"""Schedules of settings, such as learning rates, over env steps."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence

from rlrun.engine.settings.config import Cosine

Points = Sequence[tuple[int, float]]


def value_at(schedule: float | Points | Cosine, steps: int) -> float:
    """Returns the value of a scheduled setting at a number of env steps.

    Args:
        schedule: A constant, or points (env steps, value) with interpolation between them, linear or by a cosine.
        steps: Number of env steps.

    Examples:
        >>> value_at(3e-4, 10_000)
        0.0003
        >>> value_at([(0, 1.0), (100, 0.0)], 25)
        0.75
        >>> value_at([(0, 1.0), (100, 0.5)], 1_000)
        0.5
        >>> round(value_at(Cosine(cosine=[(0, 1.0), (100, 0.0)]), 25), 3)
        0.854
    """
    if isinstance(schedule, int | float):
        return float(schedule)
    points = schedule.cosine if isinstance(schedule, Cosine) else schedule
    after = bisect_right([at for at, _ in points], steps)
    if after == 0:
        return float(points[0][1])
    if after == len(points):
        return float(points[-1][1])
    (left, low), (right, high) = points[after - 1], points[after]
    if isinstance(schedule, Cosine):
        return low + (high - low) * (1.0 - math.cos(math.pi * (steps - left) / (right - left))) / 2.0
    return low + (high - low) * (steps - left) / (right - left)


def values_at(schedules: Mapping[str, float | Points | Cosine], steps: int) -> dict[str, float]:
    """Returns the values of several scheduled settings at a number of env steps, by name of the setting."""
    return {name: value_at(schedule, steps) for name, schedule in schedules.items()}
