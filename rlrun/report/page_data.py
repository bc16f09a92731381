"""Data of a report page as plain data, small enough that the page of a thousand trials opens at once.

Curves are on regular grids (first x, last x, values), those after the best few on coarse ones without a band; numbers
have four digits.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from numpy.typing import NDArray

from rlrun.checkpoint.manifest import rlrun_version
from rlrun.errors import UsageError
from rlrun.report.comparison import Comparison, compare, env_notes
from rlrun.report.configurations import Group, groups_of, is_number, params_text, value_text
from rlrun.report.curves import curve_of
from rlrun.report.expectation import expectation_of, expectation_text, reached_by
from rlrun.report.families import Family, families
from rlrun.report.importance import importance
from rlrun.report.plain_json import fields_of
from rlrun.report.reading import (
    AXES,
    DEFAULT_METRIC,
    EVALUATION_METRIC,
    RunView,
    axis_of,
    counterpart,
)
from rlrun.report.step_axis import ENV_STEPS, STEP_NAMES
from rlrun.report.summary import best_trial, shape_text, status_text, summarise, varied_text
from rlrun.report.switch import switches
from rlrun.runs.trial_result import TrialResult
from rlrun.runs.trial_status import is_over
from rlrun.spec.search_space import find_spaces
from rlrun.spec.seats import SEAT_KEYS
from rlrun.spec.trial_names import short_names
from rlrun.spec.tuning import Mode, kind_of, kind_settings
from rlrun.trial.trial_directory import EPISODES_FILE, PICTURES

FEATURED = 8
"""Number of the best curves that have a colour, a band and a line in the legend."""
FEATURED_POINTS, OTHER_POINTS = 120, 50
MOST_SEEDS_DRAWN = 10
MOST_COMPARED = 12
LOGARITHMIC_FROM = 50.0
"""Ratio of a parameter's largest to smallest value from which its axis is logarithmic, unless a search space
decides."""

MOST_CHOICES = 6
"""Maximum number of distinct values of a number that is drawn as a list of choices, as for a grid."""

USUAL_METRICS = (DEFAULT_METRIC, EVALUATION_METRIC, "episode_len_mean")
"""Metrics whose curves are shown if reported, in addition to those that the user names."""
WORLD_METRICS = re.compile(
    r"(evaluation/)?policies/[^/]+/episode_return_mean|league/(elo|win_rate)_.+"
    r"|evaluation/against/((first|second)/)?(win|unbeaten)_rate"
)
"""Further metrics of a multi-agent world: the return of each policy, and the outcomes of games."""


def page_data(runs: Sequence[RunView], metric: str, mode: Mode, metrics: Sequence[str]) -> dict[str, Any]:
    """Data of a report page for some runs.

    Args:
        runs: The runs, with the columns of all metrics.
        metric: The metric by which trials are judged.
        mode: Whether higher or lower values of this metric are better.
        metrics: Metrics whose curves are drawn; metrics that no run reports are left out.
    """
    reported = {name for run in runs for name in run.reported}
    shown = [name for name in dict.fromkeys([metric, *metrics]) if name in reported] or [metric]
    steps = axis_of(runs, None)
    groups = [group for run in runs for group in groups_of(run, several_runs=len(runs) > 1)]
    ranking = {summary.label: place for place, summary in enumerate(summarise(groups, metric, mode))}
    if len(groups) > FEATURED:
        groups.sort(key=lambda group: ranking[group.label])
    members = [group for run in runs for group in _member_groups(run)]
    return {
        "title": ", ".join(run.name for run in runs),
        "made": datetime.now(UTC).isoformat(timespec="minutes"),
        "rlrun": rlrun_version(),
        "metric": metric,
        "mode": mode,
        "counterpart": counterpart(metric),
        "metrics": shown,
        "steps": STEP_NAMES[steps],
        "groups": [_group_data(group, shown, steps, mode, featured=ranking[group.label] < FEATURED) for group in groups]
        + [_group_data(group, shown, steps, mode, featured=False) for group in members],
        "configurations": _configurations_data(groups, metric, steps, mode),
        "comparison": _comparison_data(runs, groups, metric, steps, mode),
        "trials": [_trial_data(run, trial, metric, steps, mode) for run in runs for trial in run.trials],
        "runs": [_run_data(run, metric, mode) for run in runs],
    }


def world_metrics(runs: Sequence[RunView]) -> list[str]:
    """Names of the metrics that runs report on a multi-agent world's policies and games."""
    names = dict.fromkeys(name for run in runs for trial in run.trials for name in trial.last_result)
    return sorted(filter(WORLD_METRICS.fullmatch, names))


def rounded(values: Iterable[float | None] | NDArray[Any]) -> list[float | None]:
    """Rounds numbers to four digits; numbers that are not finite become None.

    Examples:
        >>> rounded([1.23456, math.nan, 12345.6])
        [1.235, None, 12350.0]
    """
    return [None if value is None or not math.isfinite(value) else float(f"{value:.4g}") for value in values]


def _member_groups(run: RunView) -> list[Group]:
    """Groups with one population member each, for the members' grey curves."""
    members = [trial for trial in run.trials if trial.population is not None]
    return [Group(f"{run.name}: {trial.name}", run.name, {}, (((trial,),),)) for trial in members]


def _group_data(group: Group, metrics: Sequence[str], steps: str, mode: Mode, *, featured: bool) -> dict[str, Any]:
    axes = {"steps": steps, "time": AXES["time"]}
    curves = {
        metric: {name: _curve_data(group, metric, axis, mode, featured=featured) for name, axis in axes.items()}
        for metric in metrics
    }
    return {
        **fields_of(group, "label", "run"),
        "seeds": len(group.samples),
        "featured": featured,
        "curves": curves,
    }


def _curve_data(group: Group, metric: str, axis: str, mode: Mode, *, featured: bool) -> dict[str, Any] | None:
    points = FEATURED_POINTS if featured else OTHER_POINTS
    curve = curve_of(group, metric, axis, mode=mode, grid_points=points)
    if curve is None:
        return None
    data: dict[str, Any] = {"from": float(curve.xs[0]), "to": float(curve.xs[-1]), "mean": rounded(curve.mean)}
    if featured and len(curve.ys) > 1:
        data |= {
            "low": rounded(curve.low),
            "high": rounded(curve.high),
            "whole": int((curve.xs <= curve.whole_until).sum()),
        }
        if len(curve.ys) <= MOST_SEEDS_DRAWN:
            data["seeds"] = [rounded(ys) for ys in curve.ys]
    return data


def _configurations_data(groups: Sequence[Group], metric: str, steps: str, mode: Mode) -> list[dict[str, Any]]:
    runs = {group.label: group.run for group in groups}
    return [
        {
            **asdict(summary),
            "steps": getattr(summary, steps),
            "run": runs[summary.label],
            "params": params_text(summary.params),
            "values": _plain(summary.params),
        }
        for summary in summarise(groups, metric, mode)
    ]


def _comparison_data(
    runs: Sequence[RunView], groups: Sequence[Group], metric: str, steps: str, mode: Mode
) -> dict[str, Any] | None:
    """Data of the comparison of groups; None if all are single trials, or if there are too many groups."""
    if not 2 <= len(groups) <= MOST_COMPARED or all(len(group.samples) < 2 for group in groups):
        return None
    try:
        found: Comparison = compare(groups, metric, steps, mode)
    except UsageError as error:
        return {"verdict": str(error), "notes": [], "pairs": [], "sides": []}
    return {**asdict(found), "notes": [*found.notes, *env_notes(runs)]}


def _trial_data(run: RunView, trial: TrialResult, metric: str, steps: str, mode: Mode) -> dict[str, Any]:
    other = counterpart(metric)
    return {
        **fields_of(trial, "name", "seed", "error"),
        "run": run.name,
        "params": _plain(trial.params),
        "status": trial.status.lower(),
        "steps": trial.last_result.get(steps),
        "last": trial.final(metric),
        "best": trial.best(metric, mode),
        "counterpart": None if other is None else trial.final(other),
        "seconds": trial.last_result.get("time_total_s"),
        "stopped": trial.stop_reason,
    }


def _run_data(run: RunView, metric: str, mode: Mode) -> dict[str, Any]:
    groups = groups_of(run)
    best, damaged = best_trial(run, metric, mode)
    return {
        **fields_of(run, "name", "path", "algorithm", "env"),
        **fields_of(run.table, "created", "command", "versions"),
        "shape": shape_text(run),
        "status": status_text(run.trials) or "no trials yet",
        "is_done": all(is_over(trial.status) for trial in run.trials),
        "spec": run.spec_text,
        "varied": varied_text(run),
        "problems": [*run.problems, *damaged],
        "best": best and asdict(best),
        "pictures": pictures_of(run, None if best is None else best.trial),
        "episodes": episodes_of(run, None if best is None else best.trial),
        "expect": _expect_data(run, groups),
        "sweep": _sweep_data(groups, metric, mode, _logarithmic(run.spec)),
        "families": [_family_data(family, _logarithmic(run.spec)) for family in families(run, metric, mode)],
        "stops": [asdict(stop) for stop in run.stops],
        "switches": [{**asdict(one), "drop": one.drop} for one in switches(run)],
        "after": run.table.after,
        "scheduler": kind_of(run.spec.get("scheduler")),
        "time_attr": str(kind_settings(run.spec.get("scheduler")).get("time_attr") or ENV_STEPS),
    }


def pictures_of(run: RunView, best: str | None) -> list[dict[str, str]]:
    """Pictures of the best trial, or else of the first trial with pictures, as data URLs.

    Args:
        run: The run.
        best: Name of the best trial; None if there is none yet.
    """
    for trial in sorted(run.trials, key=lambda trial: trial.name != best):
        found = sorted(trial.directory.glob(PICTURES))
        if found:
            encoded = [base64.b64encode(path.read_bytes()).decode() for path in found]
            return [{"trial": trial.name, "address": f"data:image/svg+xml;base64,{data}"} for data in encoded]
    return []


def episodes_of(run: RunView, best: str | None) -> dict[str, str] | None:
    """Episodes kept as text of the best trial, or else of the first trial with some; None without any."""
    for trial in sorted(run.trials, key=lambda trial: trial.name != best):
        path = trial.directory / EPISODES_FILE
        if path.exists():
            return {"trial": trial.name, "text": path.read_text(errors="replace")}
    return None


def _expect_data(run: RunView, groups: Sequence[Group]) -> dict[str, Any] | None:
    expect = expectation_of(run.spec)
    if expect is None:
        return None
    found = reached_by(run, groups)
    return {
        "text": expectation_text(expect),
        "rows": [{**asdict(reached), **fields_of(reached, "passed", "missed")} for reached in found],
    }


def _sweep_data(
    groups: Sequence[Group], metric: str, mode: Mode, logarithmic: Mapping[str, bool]
) -> dict[str, Any] | None:
    """Data of a sweep's parallel coordinates and parameter importance; None if no parameter varies."""
    scored = [
        (summary.params, summary.mean.value, summary.label)
        for summary in summarise(groups, metric, mode)
        if summary.mean is not None and summary.params
    ]
    names = list(dict.fromkeys(name for params, _, _ in scored for name in params))
    found = [_axis_data(name, [params.get(name) for params, _, _ in scored], logarithmic) for name in names]
    axes = [axis for axis in found if axis is not None]
    if len(scored) < 2 or not axes:
        return None
    return {
        "axes": axes,
        "scores": rounded([score for _, score, _ in scored]),
        "labels": [label for _, _, label in scored],
        "importance": asdict(importance([params for params, _, _ in scored], [score for _, score, _ in scored])),
    }


def _axis_data(name: str, values: Sequence[Any], logarithmic: Mapping[str, bool]) -> dict[str, Any] | None:
    """Axis of a parameter: a linear or logarithmic range, or a list of choices; None for a constant parameter."""
    texts = [value_text(value) for value in values]
    if len(set(texts)) < 2:
        return None
    numbers = [float(value) for value in values if is_number(value)]
    if len(numbers) == len(values) and len(set(texts)) > MOST_CHOICES:
        is_log = min(numbers) > 0 and logarithmic.get(name, max(numbers) / min(numbers) >= LOGARITHMIC_FROM)
        return {"name": name, "kind": "log" if is_log else "linear", "values": [float(f"{n:.6g}") for n in numbers]}
    choices = sorted(set(texts), key=lambda text: numbers[texts.index(text)] if len(numbers) == len(texts) else text)
    return {"name": name, "kind": "choice", "choices": choices, "values": [choices.index(text) for text in texts]}


def _logarithmic(spec: Mapping[str, Any]) -> dict[str, bool]:
    """Whether the search space or mutation of each numeric parameter is logarithmic, by parameter name."""
    found, _ = find_spaces({key: spec.get(key) for key in ("env", "config", "policies", *SEAT_KEYS)})
    known = {name: found[location].kind.name for location, name in short_names(found).items()}
    mutations = kind_settings(spec.get("scheduler")).get("mutations")
    if isinstance(mutations, dict):
        known |= {str(path): next(iter(space), "") for path, space in mutations.items() if isinstance(space, dict)}
    return {name: "log" in kind for name, kind in known.items() if kind not in ("choice", "grid_search")}


def _family_data(family: Family, logarithmic: Mapping[str, bool]) -> dict[str, Any]:
    names = list(dict.fromkeys(name for stretch in family.stretches for name in stretch.params))
    axes = [_axis_data(name, [s.params.get(name) for s in family.stretches], logarithmic) for name in names]
    stretches = [
        {**asdict(stretch), "params": {name: value_text(value) for name, value in stretch.params.items()}}
        for stretch in family.stretches
    ]
    return {**asdict(family), "settings": [axis for axis in axes if axis is not None], "stretches": stretches}


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters as table cells: finite numbers unchanged, other values as text."""
    return {
        name: value if is_number(value) and math.isfinite(value) else value_text(value)
        for name, value in params.items()
    }
