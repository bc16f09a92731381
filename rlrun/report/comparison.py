"""Comparison of groups of trials: final values and areas under the curve, with intervals and significance tests.

All curves are compared over a common range of x: from the first point at which every group has a value to the last
point that every group has reached. A trial that ended earlier keeps its last value. Measures and their sources are in
`rlrun.report.statistics`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.metric import Mode
from rlrun.report.configurations import Group
from rlrun.report.curves import Points, sample_points
from rlrun.report.reading import RunView
from rlrun.report.statistics import (
    Estimate,
    bootstrapped,
    holm,
    iqm,
    mean,
    median,
    probability_of_improvement,
    rank_test,
    smallest_p,
)
from rlrun.report.step_axis import STEP_NAMES

Floats = NDArray[np.float64]

MEASURES = {"iqm": iqm, "mean": mean, "median": median}

ALL_PAIRS_UP_TO = 4
"""Maximum number of groups for which all pairs are compared; with more, only the best group is compared with each other
one."""

SIGNIFICANT = 0.05

CLEARLY = 0.98
"""Ratio of two trials' lengths up to which they are treated as equal, since last batches overshoot the stop
criterion."""

MOST_NAMED = 3
MOST_BEATEN = 10
"""Maximum number of significantly worse groups that a verdict names."""

FEW = 5
"""Number of seeds below which a note warns that bootstrap intervals are too narrow."""


@dataclass(frozen=True)
class Side:
    """Group of trials in a comparison, with its values.

    Attributes:
        label: Name of the group.
        samples: Number of samples in the group: trials or populations.
        end: Each sample's value at the end of the common range.
        area: Mean height of each sample's curve over the range: the area under the curve divided by the width.
        at_end: Averages of `end` with 95% intervals, under the keys "iqm", "mean" and "median".
        under_curve: The same averages of `area`.
    """

    label: str
    samples: int
    end: list[float]
    area: list[float]
    at_end: dict[str, Estimate]
    under_curve: dict[str, Estimate]


@dataclass(frozen=True)
class Pair:
    """Comparison of two groups by their last values.

    Attributes:
        ahead: The group with the higher probability of improvement; the first in the list if they are tied.
        behind: The other group.
        probability: Probability of improvement: that a sample of `ahead` is better than one of `behind`.
        p_value: Two-sided p value of the rank test, adjusted for the total number of pairs (Holm).
        settled: Whether the difference is significant.
        probability_of_area: Probability of improvement in the area under the curve.
        verdict: Result of this comparison as a sentence.
    """

    ahead: str
    behind: str
    probability: Estimate
    p_value: float
    settled: bool
    probability_of_area: Estimate
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """Result of a comparison of groups.

    Attributes:
        metric: Name of the compared metric.
        axis: Column of the horizontal axis.
        mode: Whether higher or lower values of the metric are better.
        start: Start of the common range of the axis.
        stop: End of the common range of the axis.
        sides: The groups, ordered by interquartile mean at the end, best first.
        pairs: The pairs of groups that were compared.
        worst: Groups that are significantly worse than all others pooled; empty with fewer than three groups.
        notes: Remarks on the numbers, a sentence each.
        verdict: Result of the comparison as a sentence.
    """

    metric: str
    axis: str
    mode: Mode
    start: float
    stop: float
    sides: tuple[Side, ...]
    pairs: tuple[Pair, ...]
    worst: tuple[str, ...]
    notes: tuple[str, ...]
    verdict: str


def compare(groups: Sequence[Group], metric: str, axis: str, mode: Mode = "max") -> Comparison:
    """Compares groups by a metric: final values, areas under the curve, and significance tests.

    Args:
        groups: The groups, with distinct labels.
        metric: Name of the metric, one of the columns with which the runs were read.
        axis: Column of the horizontal axis.
        mode: Whether higher or lower values of the metric are better.

    Raises:
        UsageError: If fewer than two groups have values, or their curves have no common range.
    """
    courses = {group.label: _sample_curves(group, metric, axis, mode) for group in groups}
    valueless = [label for label, found in courses.items() if not found]
    notes = _gathered(f"{{}}: left out, because it has no value of {metric} yet", valueless)
    groups = [group for group in groups if courses[group.label]]
    if len(groups) < 2:
        without = "".join(f"; {text}" for text in _gathered("{} has none yet", valueless))
        raise UsageError(
            f"a comparison needs at least two runs, trials or configurations with values of {metric}{without}"
        )
    points = {label: [course for stratum in courses[label] for course in stratum] for label in courses}
    start = max(min(xs[0] for xs, _ in points[group.label]) for group in groups)
    stop = min(max(xs[-1] for xs, _ in points[group.label]) for group in groups)
    if stop < CLEARLY * start:
        raise UsageError(
            f"the curves have no common range of {axis}: one starts at {start:,.6g}, another ends at {stop:,.6g}"
        )
    if stop <= start:  # for example, if the only evaluation is at the end
        start = stop
        notes.append(f"{metric} has a single common value, so the area under the curve equals the final value")
    notes += _notes(groups, points, stop)
    sides = [_side(group.label, courses[group.label], start, stop) for group in groups]
    sides.sort(key=lambda side: side.at_end["iqm"].value, reverse=mode == "max")
    pairs = _pairs(sides, mode)
    fewest = min(side.samples for side in sides)
    if 1 < fewest < FEW:
        notes.append(f"intervals from {fewest} seeds are too narrow; p values are corrected for the number of seeds")
    worst = _worse_than_rest(sides, mode)
    notes += _saturation([side for side in sides if _ends_at_best(side, points, mode)], points, axis, mode)
    verdict = _verdict(sides, pairs, worst)
    return Comparison(metric, axis, mode, start, stop, tuple(sides), tuple(pairs), tuple(worst), tuple(notes), verdict)


def env_notes(runs: Sequence[RunView]) -> list[str]:
    """Remarks that the compared runs were trained in different envs, so that their returns are not comparable.

    Returns [] if all runs have the same env.
    """
    envs = sorted({run.env for run in runs})
    return [f"the runs use different envs ({', '.join(envs)}), whose returns cannot be compared"] * (len(envs) > 1)


def _sample_curves(group: Group, metric: str, axis: str, mode: Mode) -> list[list[Points]]:
    """Curves of all samples by stratum, without samples that have no value."""
    strata = [[sample_points(sample, metric, axis, mode) for sample in stratum] for stratum in group.strata]
    return [kept for stratum in strata if (kept := [course for course in stratum if len(course[0])])]


def _notes(groups: Sequence[Group], points: Mapping[str, list[Points]], stop: float) -> list[str]:
    """Notes on trials that differ from the others, one sentence for each kind of difference."""
    reached = {group.label: max(xs[-1] for xs, _ in points[group.label]) for group in groups}
    shortest = min(reached, key=reached.__getitem__)
    is_cut = bool(max(reached.values()) * CLEARLY > stop)
    valueless = [group.label for group in groups if len(group.samples) > len(points[group.label])]
    early = [group.label for group in groups if any(xs[-1] < CLEARLY * stop for xs, _ in points[group.label])]
    is_mixed = len({group.members for group in groups}) > 1
    uneven = [group.label for group in groups if is_mixed and group.members > 1]
    unfinished = [group.label for group in groups if any(trial.status != "TERMINATED" for trial in group.trials)]
    return [
        *_gathered(f"{{}}: has reached only {stop:,.6g}, so the comparison ends there", [shortest] * is_cut),
        *_gathered("{}: some seeds are left out, because they have no value yet", valueless),
        *_gathered(f"{{}}: some seeds ended before {stop:,.6g}; their last value is used after that", early),
        *_gathered("{}: not all trials have finished", unfinished),
        *_gathered("{}: the best of several members is used, which favors it over single trials", uneven),
    ]


def _ends_at_best(side: Side, points: Mapping[str, list[Points]], mode: Mode) -> bool:
    """Whether all samples of a group end at the best value that any curve reaches, and have not always been there."""
    curves = [ys for courses in points.values() for _, ys in courses]
    best = max(ys.max() for ys in curves) if mode == "max" else min(ys.min() for ys in curves)
    return set(side.end) == {best} and any((ys != best).any() for _, ys in points[side.label])


def _saturation(full: Sequence[Side], points: Mapping[str, list[Points]], axis: str, mode: Mode) -> list[str]:
    """Note that final values cannot tell groups apart that all end at the best value, and how soon each reaches it.

    Args:
        full: The groups that end at the best value.
        points: Curves of each group's samples, by label.
        axis: Column of the horizontal axis.
        mode: Whether higher or lower values are better.
    """
    if len(full) < 2:
        return []
    best, unit = full[0].end[0], STEP_NAMES.get(axis, "s of training")
    reached = {side.label: np.median([xs[np.argmax(ys == best)] for xs, ys in points[side.label]]) for side in full}
    order = sorted(reached.items(), key=lambda item: item[1])
    steps = ", ".join(f"{label} {cell:,.0f}" for label, cell in order[:MOST_NAMED])
    more = f" and {len(order) - MOST_NAMED} more" if len(order) > MOST_NAMED else ""
    return [
        f"the metric is saturated: all seeds of {len(full)} groups end at {best:,.6g}, the "
        f"{'highest' if mode == 'max' else 'lowest'} value of any curve. Compare how soon they get there: by area "
        f"under the curve, or by the median {unit} to {best:,.6g} ({steps}{more})"
    ]


def _gathered(sentence: str, labels: Sequence[str]) -> list[str]:
    """Sentence about some groups, [] without groups; many groups are counted instead of named."""
    if not labels:
        return []
    return [sentence.format("; ".join(labels) if len(labels) <= MOST_NAMED else f"{len(labels)} of them")]


def _side(label: str, courses: list[list[Points]], start: float, stop: float) -> Side:
    ends = [np.array([np.interp(stop, *course) for course in stratum]) for stratum in courses]
    areas = [np.array([mean_height(course, start, stop) for course in stratum]) for stratum in courses]
    return Side(
        label=label,
        samples=sum(map(len, ends)),
        end=[float(value) for stratum in ends for value in stratum],
        area=[float(value) for stratum in areas for value in stratum],
        at_end={name: bootstrapped(measure, ends) for name, measure in MEASURES.items()},
        under_curve={name: bootstrapped(measure, areas) for name, measure in MEASURES.items()},
    )


def mean_height(course: Points, start: float, stop: float) -> float:
    """Mean height of a piecewise linear curve: the area from start to stop divided by the width.

    For a width of 0, the result is the curve's height at that point.

    Examples:
        >>> mean_height((np.array([0.0, 10.0]), np.array([0.0, 1.0])), 0.0, 20.0)  # the curve keeps its last value
        0.75
    """
    xs, _ = course
    if start == stop:
        return float(np.interp(stop, *course))
    inside = np.concatenate([[start], xs[(xs > start) & (xs < stop)], [stop]])
    return float(np.trapezoid(np.interp(inside, *course), inside) / (stop - start))


def _pairs(sides: Sequence[Side], mode: Mode) -> list[Pair]:
    if len(sides) <= ALL_PAIRS_UP_TO:
        chosen = [(one, other) for place, one in enumerate(sides) for other in sides[place + 1 :]]
    else:
        chosen = [(sides[0], other) for other in sides[1:]]
    tests = len(sides) * (len(sides) - 1) // 2  # all pairs count, since the leader was chosen by the same values
    adjusted = holm([rank_test(one.end, other.end) for one, other in chosen], tests)
    return [_pair(one, other, mode, p, tests) for (one, other), p in zip(chosen, adjusted, strict=True)]


def _pair(one: Side, other: Side, mode: Mode, p_value: float, tests: int) -> Pair:
    sign = 1.0 if mode == "max" else -1.0

    def wins(ours: list[float], theirs: list[float]) -> Estimate:
        return probability_of_improvement([sign * np.array(ours)], [sign * np.array(theirs)])

    probability = wins(one.end, other.end)
    if probability.value < 0.5:
        one, other = other, one
        probability = wins(one.end, other.end)
    settled = p_value <= SIGNIFICANT
    return Pair(
        ahead=one.label,
        behind=other.label,
        probability=probability,
        p_value=p_value,
        settled=settled,
        probability_of_area=wins(one.area, other.area),
        verdict=_pair_verdict(one, other, probability, p_value, tests, settled=settled),
    )


def _pair_verdict(
    ahead: Side, behind: Side, probability: Estimate, p_value: float, tests: int, *, settled: bool
) -> str:
    if settled:
        wins = f"it wins in {probability.value:.0%} of pairs (p = {p_value:.2g})"
        return f"{ahead.label} is better than {behind.label}: {wins}"
    if probability.value == 0.5:
        return f"{ahead.label} and {behind.label} are tied: each wins as often as the other"
    names = f"{ahead.label} and {behind.label} cannot be told apart"
    if tests * smallest_p(ahead.samples, behind.samples) > SIGNIFICANT:
        few = "one seed each" if ahead.samples == behind.samples == 1 else "so few seeds"
        return f"{names} with {few}; {_enough(tests)} seeds on each side could settle it"
    return f"{names}: the first wins in {probability.value:.0%} of pairs (p = {p_value:.2g})"


def _enough(tests: int) -> int:
    """Smallest number of seeds per side with which one of several rank tests can be significant."""
    return next(n for n in range(1, 40) if tests * smallest_p(n, n) <= SIGNIFICANT)


def _worse_than_rest(sides: Sequence[Side], mode: Mode) -> list[str]:
    """Groups that are significantly worse than all others pooled (rank tests with Holm's correction).

    Among many groups with few seeds no pair can be significant, as there are many pairs. Comparing each group with the
    seeds of all others takes one test per group, with many values on one side.
    """
    if len(sides) < 3:
        return []
    rests = [np.concatenate([other.end for other in sides if other is not side]) for side in sides]
    adjusted = holm([rank_test(side.end, rest) for side, rest in zip(sides, rests, strict=True)])
    sign = 1.0 if mode == "max" else -1.0
    return [
        side.label
        for side, rest, p in zip(sides, rests, adjusted, strict=True)
        if p <= SIGNIFICANT and sign * np.sign(np.subtract.outer(side.end, rest)).sum() < 0
    ]


def _verdict(sides: Sequence[Side], pairs: Sequence[Pair], worst: Sequence[str]) -> str:
    """Verdict as a sentence: a group is called better only where that is significant; ties are named as such."""
    if len(pairs) == 1:
        return pairs[0].verdict
    first, others = sides[0].label, [side.label for side in sides[1:]]
    with_first = pairs[: len(others)]
    if all(pair.probability.value == 0.5 for pair in with_first):
        return f"all {len(sides)} are tied: each wins as often as the others"
    if max(side.samples for side in sides) == 1:
        tests = len(sides) * (len(sides) - 1) // 2
        return f"one seed each is not enough; {_enough(tests)} seeds each could settle which is better"
    beaten = [pair.behind for pair in with_first if pair.ahead == first and pair.settled]
    of_the_rest = [label for label in worst if label not in beaten]
    together = f"; worse than the rest taken as a group: {_named(of_the_rest)}" if of_the_rest else ""
    open_ones = [label for label in others if label not in beaten]
    if not open_ones:
        return f"{first} is better than each of the other {len(others)}"
    if not beaten:
        return f"none of the {len(sides)} is clearly the best: each lead of the first may be due to chance{together}"
    rest = ", ".join(open_ones) if len(open_ones) <= MOST_NAMED else f"{len(open_ones)} others"
    return f"{first} is better than {_named(beaten)}; it cannot be told apart from {rest}{together}"


def _named(labels: Sequence[str]) -> str:
    """List of labels as text, of which only the first `MOST_BEATEN` are named."""
    more = len(labels) - MOST_BEATEN
    return ", ".join(labels) if more <= 0 else f"{', '.join(labels[:MOST_BEATEN])} and {more} more"
