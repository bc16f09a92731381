"""Comparison of two groups of seeds by the confidence interval of their difference: better, same or worse.

Seeds are not paired, since a change of the code changes the random numbers of a seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from typing_extensions import override

from rlrun.report.statistics import mean_difference

PolicyEstimate = Literal["better", "same", "worse", "not judged"]

Strata = Mapping[str, Sequence[float]]
"""Type of the values of an experiment's seeds, by configuration."""


@dataclass(frozen=True)
class Comparison:
    """Comparison of a value with the baseline's.

    Attributes:
        judgement: "better" or "worse" if the whole interval is on one side, "same" if it is not, "not judged" if
            there is no interval.
        before: Value of the baseline, None without one.
        now: Value of the new run, None without one.
        change: Difference of the values, or their quotient if `is_ratio`.
        low: Lower end of the 95 % interval of `change`.
        high: Upper end of this interval.
        is_ratio: Whether the values are compared by their quotient.
        note: A remark, such as the reason for a missing judgement; "" for none.
    """

    judgement: PolicyEstimate
    before: float | None = None
    now: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    is_ratio: bool = False
    note: str = ""

    @override
    def __str__(self) -> str:
        numbers = (self.before, self.now, self.change, self.low, self.high)
        before, now, change, low, high = ("" if number is None else _number(number) for number in numbers)
        by = f"x {change}" if self.is_ratio else change if change.startswith("-") else f"+{change}"
        found = f"{before} before, {now} now: {by} [{low}, {high}]" if before else ""
        return "; ".join(filter(None, (found, self.note)))


def compare_differences(now: Strata, before: Strata, *, note: str = "") -> Comparison:
    """Compares means by their difference; higher is better.

    Args:
        now: Values of the new run. Configurations that only one side has are left out.
        before: Values of the baseline.
        note: A remark for the comparison.
    """
    found = _difference(now, before)
    if isinstance(found, str):
        return Comparison("not judged", note="; ".join(filter(None, (found, note))))
    mean_now, mean_before, low, high = found
    judgement: PolicyEstimate = "worse" if high < 0 else "better" if low > 0 else "same"
    return Comparison(judgement, mean_before, mean_now, mean_now - mean_before, low, high, note=note)


def compare_ratios(now: Strata, before: Strata, *, tolerance: float) -> Comparison:
    """Compares geometric means by their quotient; higher is better.

    Args:
        now: Values of the new run, above 0. Configurations that only one side has are left out.
        before: Values of the baseline.
        tolerance: Quotients from 1 - `tolerance` to 1 + `tolerance` count as the same.
    """
    found = _difference(_logarithms(now), _logarithms(before))
    if isinstance(found, str):
        return Comparison("not judged", is_ratio=True, note=found)
    mean_now, mean_before, low, high = (math.exp(value) for value in found)
    judgement: PolicyEstimate = "worse" if high < 1 - tolerance else "better" if low > 1 + tolerance else "same"
    return Comparison(judgement, mean_before, mean_now, mean_now / mean_before, low, high, is_ratio=True)


def _difference(now: Strata, before: Strata) -> tuple[float, float, float, float] | str:
    """Means of both sides and the interval of their difference, or the reason for missing ones."""
    common = [name for name in now if now[name] and before.get(name)]
    if not common:
        return "there is nothing to compare"
    ours, theirs = [list(now[name]) for name in common], [list(before[name]) for name in common]
    means = [float(np.mean([np.mean(stratum) for stratum in side])) for side in (ours, theirs)]
    if ours == theirs and min(map(len, ours)) < 2:
        return means[0], means[1], 0.0, 0.0
    if min(map(len, [*ours, *theirs])) < 2:
        return "an interval takes two seeds or more on both sides"
    found = mean_difference(ours, theirs)
    return means[0], means[1], found.low, found.high


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _logarithms(strata: Strata) -> dict[str, list[float]]:
    return {name: [math.log(value) for value in values if value > 0] for name, values in strata.items()}
