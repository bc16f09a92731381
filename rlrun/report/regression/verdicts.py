"""Results of regression runs: a case for each seed, a verdict for each experiment.

A comparison with a baseline does not pair equal seeds, since code changes also change a seed's random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from typing_extensions import override

from rlrun.report.plain_json import fields_of
from rlrun.report.statistics import interquartile_mean, mean_difference
from rlrun.report.step_axis import ENV_STEPS, SGD_STEPS, STEP_NAMES, counted_metric

Judgement = Literal["better", "same", "worse", "not judged"]

Strata = Mapping[str, Sequence[float]]
"""Type of the values of an experiment's seeds, by configuration."""


@dataclass(frozen=True)
class JudgedValue:
    """Comparison of a value with the baseline's value, and its judgement.

    Attributes:
        judgement: "better" or "worse" if the interval of `change` excludes the possibility of no change, otherwise
            "same"; "not judged" if there is no interval.
        before: Value in the baseline; None if it has none.
        now: Value in the new run; None if it has none.
        change: Difference between the values, or their quotient if `is_ratio`.
        low: Lower end of the 95% interval of `change`.
        high: Upper end of this interval.
        is_ratio: Whether the values are compared by their quotient.
        note: A remark, such as the reason for a missing judgement; "" for none.
    """

    judgement: Judgement
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


def compare_differences(now: Strata, before: Strata, *, note: str = "") -> JudgedValue:
    """Judges whether a mean is better or worse than in the baseline, by the interval of the difference.

    Higher values are better.

    Args:
        now: Values of the new run, by configuration. Configurations that only one of the runs has are left out.
        before: Values of the baseline.
        note: A remark for the comparison.
    """
    found = _difference(now, before)
    if isinstance(found, str):
        return JudgedValue("not judged", note="; ".join(filter(None, (found, note))))
    mean_now, mean_before, low, high = found
    judgement: Judgement = "worse" if high < 0 else "better" if low > 0 else "same"
    return JudgedValue(judgement, mean_before, mean_now, mean_now - mean_before, low, high, note=note)


def compare_ratios(now: Strata, before: Strata, *, tolerance: float) -> JudgedValue:
    """Judges whether a geometric mean is better or worse than in the baseline, by the interval of the quotient.

    Higher values are better.

    Args:
        now: Positive values of the new run, by configuration; configurations in only one of the runs are left out.
        before: Values of the baseline.
        tolerance: Quotients from 1 - `tolerance` to 1 + `tolerance` count as the same.
    """
    found = _difference(_logarithms(now), _logarithms(before))
    if isinstance(found, str):
        return JudgedValue("not judged", is_ratio=True, note=found)
    mean_now, mean_before, low, high = (math.exp(value) for value in found)
    judgement: Judgement = "worse" if high < 1 - tolerance else "better" if low > 1 + tolerance else "same"
    return JudgedValue(judgement, mean_before, mean_now, mean_now / mean_before, low, high, is_ratio=True)


def _difference(now: Strata, before: Strata) -> tuple[float, float, float, float] | str:
    """Means of both sides and the interval of their difference, or the reason why there are none."""
    common = [name for name in now if now[name] and before.get(name)]
    if not common:
        return "there is nothing to compare"
    ours, theirs = [list(now[name]) for name in common], [list(before[name]) for name in common]
    means = [float(np.mean([np.mean(stratum) for stratum in side])) for side in (ours, theirs)]
    if ours == theirs and min(map(len, ours)) < 2:
        return means[0], means[1], 0.0, 0.0
    if min(map(len, [*ours, *theirs])) < 2:
        return "an interval needs at least two seeds on both sides"
    found = mean_difference(ours, theirs)
    return means[0], means[1], found.low, found.high


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _logarithms(strata: Strata) -> dict[str, list[float]]:
    return {name: [math.log(value) for value in values if value > 0] for name, values in strata.items()}


ROOM = 0.1
"""Tolerance below the floor without a warning, as a fraction of the distance from the target to the floor.

If all published seeds reach the largest possible return, their interval has no width and the floor is that return. Any
worse seed would then cause a warning.
"""


@dataclass(frozen=True)
class Case:
    """Result of one seed of one configuration in a regression run.

    Attributes:
        trial: Name of the trial.
        seed: Root seed of the trial.
        configuration: Values of the settings that vary between configurations, as text; "" with only one configuration.
        directory: The trial's directory.
        env_steps: Env steps taken in training.
        seconds: Seconds of training: the trial's ``time_total_s``.
        values: Reached value by metric; None for a metric without a value.
        expected: Target by metric: the smallest value that passes.
        error: Reason why the case cannot be evaluated; "" if it can.
        sgd_steps: SGD steps taken in training.
    """

    trial: str
    seed: int
    configuration: str
    directory: Path
    env_steps: int
    seconds: float
    values: dict[str, float | None]
    expected: dict[str, float]
    error: str = ""
    sgd_steps: int = 0

    @property
    def counter(self) -> str:
        """Metric that counts the steps of training: `env_steps`, or `sgd_steps` in offline training."""
        return counted_metric([fields_of(self, ENV_STEPS, SGD_STEPS)])

    @property
    def steps(self) -> int:
        """Number of steps taken in training, in the unit of `counter`."""
        return self.env_steps if self.counter == ENV_STEPS else self.sgd_steps

    @property
    def reached(self) -> bool:
        """Whether every metric has a value that reaches the target."""
        return not self.error and all(self.outcome_of(metric) == "reached" for metric in self.expected)

    def outcome_of(self, metric: str) -> str:
        """Returns the outcome of one metric of the case as one word: reached, missed or failed."""
        value = self.values.get(metric)
        reached = value is not None and value >= self.expected[metric]
        return "failed" if self.error else "reached" if reached else "missed"

    @property
    def outcome(self) -> str:
        """Outcome of the case as one word: reached, missed or failed."""
        return "failed" if self.error else "reached" if self.reached else "missed"

    @property
    def message(self) -> str:
        """Reached and expected values as a sentence, or the error."""
        if self.error:
            return self.error
        found = [
            f"{metric} {'has no value' if value is None else f'is {value:g}'}, expected at least {least:g}"
            for metric, least in self.expected.items()
            for value in (self.values.get(metric),)
        ]
        steps = f"{self.steps:,} {STEP_NAMES[self.counter]}"
        return f"{'; '.join(found)} (seed {self.seed}, {steps}, {self.seconds:.1f} s of training)"


@dataclass(frozen=True)
class Verdict:
    """Verdict on an experiment in a regression run: whether it reaches its targets.

    In a negative control, the verdict is whether frozen policies miss the targets.

    Attributes:
        experiment: Name of the experiment.
        cases: A case for each seed of each configuration.
        needed: Number of seeds of each configuration that must reach the targets.
        control: Whether the policies were frozen; if frozen policies reach the targets, the targets are too low.
        area: Comparison of the areas under the learning curves with the baseline's; None if there is no baseline.
        speed: Comparison of the env steps per second with the baseline's; None if there is no baseline.
        holds_speed: Whether a worse speed fails the experiment.
        floor: Regression floor: a warning is given if the seeds' interquartile mean is below it by a margin (`ROOM`);
            None for no warning.
    """

    experiment: str
    cases: tuple[Case, ...]
    needed: int
    control: bool = False
    area: JudgedValue | None = None
    speed: JudgedValue | None = None
    holds_speed: bool = False
    floor: float | None = None

    @property
    def warning(self) -> str:
        """Warning that does not fail the experiment, as a sentence; "" for none."""
        if self.floor is None or self.control:
            return ""
        means = [iqm_of(cases) for cases in self._by_configuration()]
        least = max((value for case in self.cases for value in case.expected.values()), default=self.floor)
        bound = self.floor - ROOM * max(0.0, self.floor - least)
        low = [mean for mean in means if mean is not None and mean < bound]
        if not low:
            return ""
        room = f" (tolerance: {ROOM:.0%} of the distance to the target {least:g})" if bound < self.floor else ""
        return f"the interquartile mean over seeds is {min(low):g}, below the regression floor of {self.floor:g}{room}"

    @property
    def reached(self) -> bool:
        """Whether enough seeds of every configuration reached the targets."""
        return all(self._enough(cases) for cases in self._by_configuration())

    @property
    def is_too_weak(self) -> bool:
        """Whether the targets are too low: in a negative control, frozen policies reach them in some configuration."""
        return self.control and any(self._enough(cases) for cases in self._by_configuration())

    @property
    def failed_cases(self) -> int:
        """Number of cases that could not be evaluated because of errors."""
        return sum(bool(case.error) for case in self.cases)

    @property
    def passed(self) -> bool:
        """Whether the experiment passes; `message` has the reason if not."""
        return not self.message

    @property
    def message(self) -> str:
        """Reason why the experiment does not pass, as a sentence; "" if it passes."""
        if self.failed_cases:
            return f"{self.failed_cases} of {len(self.cases)} trials failed"
        if self.is_too_weak:
            return f"the gate is too weak: policies that do not learn pass it ({self.summary})"
        if not self.control and not self.reached:
            return f"missed the target of the spec ({self.summary})"
        if self.area is not None and self.area.judgement == "worse":
            return f"learns worse than the baseline ({self.area})"
        if self.holds_speed and self.speed is not None and self.speed.judgement == "worse":
            return f"slower than the baseline ({self.speed})"
        return ""

    @property
    def summary(self) -> str:
        """Text with the number of seeds that have reached the targets, and the required number, by configuration."""
        parts = []
        for cases in self._by_configuration():
            seeds = f"{len(cases)} {'frozen ' if self.control else ''}seed{'s' if len(cases) != 1 else ''}"
            of = f" with {cases[0].configuration}" if cases[0].configuration else ""
            reached = sum(case.reached for case in cases)
            parts.append(f"{reached} of {seeds}{of} reached the target, {self.needed} needed")
        return "; ".join(parts)

    def _by_configuration(self) -> list[list[Case]]:
        names = dict.fromkeys(case.configuration for case in self.cases)
        return [[case for case in self.cases if case.configuration == name] for name in names]

    def _enough(self, cases: list[Case]) -> bool:
        return sum(case.reached for case in cases) >= self.needed


def iqm_of(cases: Sequence[Case]) -> float | None:
    """Interquartile mean of a metric over all cases; None if a case has no value."""
    values = [value for case in cases for value in case.values.values()]
    known = [value for value in values if value is not None]
    return float(interquartile_mean(known)) if known and len(known) == len(values) else None


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """Serializes a verdict to plain data for a JSON document."""
    return {
        **fields_of(verdict, "experiment", "passed", "control", "message", "warning"),
        "cases": [{**asdict(case), "outcome": case.outcome} for case in verdict.cases],
        "area": verdict.area and asdict(verdict.area),
        "speed": verdict.speed and asdict(verdict.speed),
    }
