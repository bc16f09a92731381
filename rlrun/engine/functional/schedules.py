"""Schedules of settings, such as learning rates, over env steps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

Points = Sequence[tuple[int, float]]


def value_at(schedule: float | Points, steps: int) -> float:
    """Returns the value, at a number of env steps, of a setting that is constant or piecewise linear in env steps.

    Examples:
        >>> value_at(3e-4, 10_000)
        0.0003
        >>> value_at([(0, 1.0), (100, 0.0)], 25)
        0.75
        >>> value_at([(0, 1.0), (100, 0.5)], 1_000)
        0.5
    """
    if isinstance(schedule, int | float):
        return float(schedule)
    after = bisect_right([at for at, _ in schedule], steps)
    if after == 0:
        return float(schedule[0][1])
    if after == len(schedule):
        return float(schedule[-1][1])
    (left, low), (right, high) = schedule[after - 1], schedule[after]
    return low + (high - low) * (steps - left) / (right - left)


def values_at(schedules: Mapping[str, float | Points], steps: int) -> dict[str, float]:
    """Returns the values of several scheduled settings at a number of env steps, by name of the setting."""
    return {name: value_at(schedule, steps) for name, schedule in schedules.items()}
