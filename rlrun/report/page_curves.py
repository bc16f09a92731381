"""Curves of a report page on regular grids, stored as first x, last x, and values rounded to four digits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

from rlrun.engine.settings.metric import Mode
from rlrun.report.configurations import Group
from rlrun.report.curves import Curve, curve_of
from rlrun.report.expectation import expectation_of
from rlrun.report.metric_grid import CLOCK, MetricGrid
from rlrun.report.plain_json import fields_of
from rlrun.report.reading import AXES, RunView

FEATURED = 8
"""Number of the best curves with a band and a fine grid."""

FEATURED_POINTS, OTHER_POINTS = 120, 50
"""Grid points of the best curves and of the others."""

BEST_SMALL_POINTS, SMALL_POINTS = 60, 16
"""Grid points in small charts, of the best group and of the others."""

MOST_SEEDS_DRAWN = 10

MOST_SMALL = 40
"""Number of the best groups that are drawn in the small charts."""


def curves_data(
    groups: Sequence[Group], members: Sequence[Group], metrics: Sequence[str], grid: MetricGrid, steps: str, mode: Mode
) -> list[dict[str, Any]]:
    """Curves of all groups, best group first, followed by curves of single population members.

    Args:
        groups: The groups, the best first.
        members: Groups of one population member each.
        metrics: Metrics that are drawn over steps and over time.
        grid: Metrics that are drawn over steps only, in small charts.
        steps: Metric that counts steps.
        mode: Whether higher or lower values are better, which decides which member of a population is the best.
    """
    small = [name for name in [*grid.names, CLOCK] if name not in metrics]
    found = []
    for place, group in enumerate([*groups, *members]):
        featured = place < min(FEATURED, len(groups))
        data = _group_data(group, metrics, steps, mode, featured=featured, is_first=place == 0)
        if place < min(MOST_SMALL, len(groups)):
            points = BEST_SMALL_POINTS if place == 0 else SMALL_POINTS
            single = Group(group.label, group.run, group.params, (tuple((trial,) for trial in group.trials),))
            for name in small:  # a population's mean, since the best value of a loss is meaningless
                curve = curve_of(single, name, steps, mode=mode, grid_points=points)
                data["curves"][name] = {"steps": _curve_data(curve, has_band=place == 0, digits=4 if place == 0 else 3)}
        found.append(data)
    return found


def lines_of(runs: Sequence[RunView]) -> list[dict[str, Any]]:
    """Metric values that specs set as targets (`expect`) or stop criteria (`stop`), drawn as lines in charts."""
    lines = []
    for run in runs:
        expect = expectation_of(run.spec)
        if expect is not None:
            lines += [{"metric": name, "value": value, "what": "expected"} for name, value in expect.metrics.items()]
            lines += [{"metric": name, "value": n, "what": "expected by"} for name, n in expect.within_steps.items()]
        stop = run.spec.get("stop")
        for name, value in stop.items() if isinstance(stop, dict) else ():
            if isinstance(value, int | float):
                lines.append({"metric": name, "value": value, "what": "stop"})
    return [line for place, line in enumerate(lines) if line not in lines[:place]]


def member_groups(run: RunView) -> list[Group]:
    """Groups with one population member each, drawn as gray curves."""
    members = [trial for trial in run.trials if trial.population is not None]
    return [Group(f"{run.name}: {trial.name}", run.name, {}, (((trial,),),)) for trial in members]


def rounded(values: Iterable[float | None] | NDArray[Any], digits: int = 4) -> list[float | None]:
    """Rounds numbers to a few significant digits; numbers that are not finite become None.

    Examples:
        >>> rounded([1.23456, math.nan, 12345.6])
        [1.235, None, 12350.0]
    """
    return [None if value is None or not math.isfinite(value) else float(f"{value:.{digits}g}") for value in values]


def _group_data(
    group: Group, metrics: Sequence[str], steps: str, mode: Mode, *, featured: bool, is_first: bool
) -> dict[str, Any]:
    points = FEATURED_POINTS if featured else OTHER_POINTS
    curves: dict[str, dict[str, Any]] = {}
    for metric in metrics:
        is_judged = metric == metrics[0]
        curves[metric] = {
            name: _curve_data(
                curve_of(group, metric, axis, mode=mode, grid_points=points),
                has_band=featured and (is_judged or is_first),
                has_seeds=featured and is_judged,
            )
            for name, axis in (("steps", steps), ("time", AXES["time"]))
        }
    return {**fields_of(group, "label", "run"), "seeds": len(group.samples), "featured": featured, "curves": curves}


def _curve_data(
    curve: Curve | None, *, has_band: bool, has_seeds: bool = False, digits: int = 4
) -> dict[str, Any] | None:
    if curve is None:
        return None
    ends = {"from": float(curve.xs[0]), "to": float(curve.xs[-1])}
    data: dict[str, Any] = {**ends, "mean": rounded(curve.mean, digits)}
    if has_band and len(curve.ys) > 1:
        data |= {
            "low": rounded(curve.low),
            "high": rounded(curve.high),
            "whole": int((curve.xs <= curve.whole_until).sum()),
        }
    if has_seeds and 1 < len(curve.ys) <= MOST_SEEDS_DRAWN:
        data["seeds"] = [rounded(ys) for ys in curve.ys]
    return data
