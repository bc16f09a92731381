"""The median stopping rule."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from statistics import median

from rlrun.experiments.search.rules.rule import CONTINUE, Decision, Measure, comparable


class Median:
    """Median stopping rule: stops a trial whose best score is below the median of the other trials' running means.

    A trial at time t is compared with all other trials that have reached t, including those that have ended. A running
    mean covers the scores from `grace_period` up to t. Results without a score do not enter the means; a trial without
    any score counts as below every median.

    Source:
        Golovin et al., "Google Vizier: A Service for Black-Box Optimization", KDD 2017, section 3.2.2, as
        implemented in Ray Tune: running trials count like completed ones.

    Args:
        grace_period: Time before which no trial is stopped, and from which the means are computed.
        min_samples_required: Minimum number of other trials that have reached the same time.
        measure: Units of time and score, for messages.

    Raises:
        ValueError: The numbers are not valid.
    """

    def __init__(self, *, grace_period: float, min_samples_required: int = 3, measure: Measure) -> None:
        if grace_period < 0 or min_samples_required < 1:
            raise ValueError(
                f"must have grace_period ({grace_period:g}) >= 0 and min_samples_required ({min_samples_required}) >= 1"
            )
        self._grace_period = grace_period
        self._min_samples_required = min_samples_required
        self._measure = measure
        self._curves: dict[str, _Curve] = {}

    def add(self, trial: str) -> None:
        """Does nothing, since the rule uses a trial only from its first result onward."""

    def on_result(self, trial: str, time: float, score: float | None) -> Decision:
        """Compares a trial's best score with the median of other trials' running means at the same time."""
        mine = self._curves.setdefault(trial, _Curve())
        if mine.times and time <= mine.times[-1]:
            return CONTINUE  # a resumed trial has repeated a result
        mine.append(time, comparable(score), counts=time >= self._grace_period)
        if time < self._grace_period:
            return CONTINUE
        others = [curve for other, curve in self._curves.items() if other != trial]
        means = [mean for curve in others if (mean := curve.mean_until(time)) is not None]
        if len(means) < self._min_samples_required:
            return CONTINUE
        middle = median(means)
        if mine.best >= middle:
            return CONTINUE
        measure = self._measure
        return Decision(
            "stop",
            f"median: the best value up to {measure.moment(time)}, {measure.value(mine.best)}, is "
            f"{measure.worse_than} {measure.value(middle)}, the median of {len(means)} other trials' means",
        )

    def remove(self, trial: str) -> None:
        """Does nothing: results of a removed trial still count."""

    def released(self) -> dict[str, Decision]:
        """Returns no decisions about waiting trials, since trials never wait under the median stopping rule."""
        return {}


@dataclass
class _Curve:
    """Learning curve of a trial: times of the results, with sums and counts of the scores up to each."""

    times: list[float] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    best: float = -math.inf

    def append(self, time: float, score: float, counts: bool) -> None:
        """Appends a result to the curve; a missing score does not count in the mean."""
        counted = counts and math.isfinite(score)
        self.sums.append((self.sums[-1] if self.sums else 0.0) + (score if counted else 0.0))
        self.numbers.append((self.numbers[-1] if self.numbers else 0) + counted)
        self.times.append(time)
        self.best = max(self.best, score)

    def mean_until(self, time: float) -> float | None:
        """Running mean of the scores up to a time; None if the trial has not reached it, or has no score."""
        if not self.times or self.times[-1] < time:
            return None
        last = bisect_right(self.times, time) - 1
        return self.sums[last] / self.numbers[last] if last >= 0 and self.numbers[last] else None
