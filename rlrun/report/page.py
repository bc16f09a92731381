"""Report page of runs: a single HTML file without external resources, with its data embedded."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rlrun.engine.checkpoint.manifest import rlrun_version
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.metric import Mode
from rlrun.experiments.runs.run_state import read_run_state
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.report.action_kinds import KIND_METRICS
from rlrun.report.comparison import Comparison, compare, env_notes
from rlrun.report.configurations import Group, groups_of, is_number, params_text, value_text
from rlrun.report.games import are_games, rates_of
from rlrun.report.metric_grid import grid_metrics, metric_grid
from rlrun.report.page_curves import curves_data, lines_of, member_groups, rounded
from rlrun.report.page_run import run_data
from rlrun.report.plain_json import fields_of, plain
from rlrun.report.profiles import env_of, profiles
from rlrun.report.reading import (
    DEFAULT_METRIC,
    EVALUATION_METRIC,
    RunView,
    axis_of,
    chosen_goal,
    counterpart,
    denser_counterpart,
    read_runs,
    require_reported,
)
from rlrun.report.statistics import Estimate, mean_difference
from rlrun.report.step_axis import STEP_NAMES
from rlrun.report.summary import GroupSummary, summarise
from rlrun.report.timeline import training_seconds

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = (
    "drawing.js",
    "figure.js",
    "chart.js",
    "data.js",
    "head.js",
    "curves.js",
    "tables.js",
    "games.js",
    "sweep.js",
    "slices.js",
    "history.js",
    "profiles.js",
    "population.js",
    "run.js",
    "page.js",
)
"""JavaScript files of the page, in the order of execution."""

MOST_COMPARED = 60
"""Maximum number of groups for which a comparison is made."""

MOST_SIDES = 12
"""Number of the best groups whose comparison is shown in tables."""

LENGTH = "episode_len_mean"
USUAL_METRICS = (DEFAULT_METRIC, EVALUATION_METRIC, LENGTH)
WORLD_METRICS = re.compile(
    r"(evaluation/)?policies/[^/]+/episode_return_mean|league/(elo|win_rate)_.+"
    r"|evaluation/against/((first|second)/)?(win|draw|loss|unbeaten)_rate"
)
"""Further metrics of a multi-agent world: the return of each policy, and the outcomes of games."""


def page_data(
    runs: Sequence[RunView],
    metric: str,
    mode: Mode,
    metrics: Sequence[str],
    small: Sequence[str] = (),
    *,
    drawn: str | None = None,
) -> dict[str, Any]:
    """Data for a report page on the given runs.

    Args:
        runs: The runs, with the columns of all metrics.
        metric: Metric that ranks the trials.
        mode: Whether higher or lower values of this metric are better.
        metrics: Metrics whose curves are drawn; metrics that no run reports are left out.
        small: Metrics whose curves are drawn in a grid of small charts.
        drawn: Metric that the chart of learning curves shows first; None for `metric`.
    """
    reported = {name for run in runs for name in run.reported}
    shown = [name for name in dict.fromkeys([metric, *metrics, drawn]) if name in reported] or [metric]
    steps = axis_of(runs, None)
    groups = [group for run in runs for group in groups_of(run, several_runs=len(runs) > 1)]
    summaries = summarise(groups, metric, mode)
    envs = {env_of(run, group) for run in runs for group in groups_of(run)}
    comparison, reason = _comparison(groups, summaries, metric, steps, mode) if len(envs) == 1 else (None, "")
    ranks = {label: place for place, label in enumerate(rank_order(comparison, summaries))}
    ordered = sorted(groups, key=lambda group: ranks[group.label])
    summaries.sort(key=lambda summary: ranks[summary.label])
    grid = metric_grid(runs, small)
    leader = leader_of(comparison, summaries, mode) if len(envs) == 1 else None
    return {
        "title": ", ".join(run.name for run in runs),
        "made": datetime.now(UTC).isoformat(timespec="minutes"),
        "rlrun": rlrun_version(),
        "metric": metric,
        "mode": mode,
        "counterpart": counterpart(metric),
        "metrics": shown,
        "drawn": drawn or shown[0],
        "grid": asdict(grid),
        "lines": lines_of(runs),
        "step_metric": steps,
        "steps": STEP_NAMES[steps],
        "groups": curves_data(ordered, [g for run in runs for g in member_groups(run)], shown, grid, steps, mode),
        "configurations": _configurations_data(ordered, summaries, steps),
        "games": [asdict(rates) for rates in rates_of(ordered)],
        "leader": asdict(leader) if leader is not None else None,
        "comparison": _comparison_data(comparison, reason, env_notes(runs)),
        "profiles": None if (found := profiles(runs, groups, metric, mode)) is None else asdict(found),
        "trials": [_trial_data(run, trial, metric, steps, mode) for run in runs for trial in run.trials],
        "runs": [run_data(run, metric, mode) for run in runs],
    }


def world_metrics(trials: Sequence[TrialResult]) -> list[str]:
    """Names of the reported metrics of a multi-agent env: returns of policies, win rates and Elo ratings."""
    names = dict.fromkeys(name for trial in trials for name in trial.last_result)
    return sorted(filter(WORLD_METRICS.fullmatch, names))


def usual_metrics(trials: Sequence[TrialResult]) -> tuple[str, ...]:
    """Metrics whose curves a report shows by default, if reported; games have win rates in place of returns."""
    return (LENGTH,) if are_games(trials) else USUAL_METRICS


def _comparison(
    groups: Sequence[Group], summaries: Sequence[GroupSummary], metric: str, steps: str, mode: Mode
) -> tuple[Comparison | None, str]:
    """Comparison of groups, or the reason for which there is none; "" if there are too few or too many groups."""
    if len(groups) > MOST_COMPARED or sum(summary.mean is not None for summary in summaries) < 2:
        return None, ""
    try:
        return compare(groups, metric, steps, mode), ""
    except UsageError as error:
        return None, str(error)


def _comparison_data(comparison: Comparison | None, reason: str, notes: Sequence[str]) -> dict[str, Any] | None:
    if comparison is None:
        return {"verdict": reason, "notes": notes, "pairs": [], "sides": []} if reason or notes else None
    data = asdict(comparison)
    best = {side.label for side in comparison.sides[:MOST_SIDES]}
    return data | {
        "sides": data["sides"][:MOST_SIDES],
        "pairs": [pair for pair in data["pairs"] if {pair["ahead"], pair["behind"]} <= best],
    }


def _configurations_data(
    groups: Sequence[Group], summaries: Sequence[GroupSummary], steps: str
) -> list[dict[str, Any]]:
    by_label = {group.label: group for group in groups}
    return [
        {
            **asdict(summary),
            "steps": getattr(summary, steps),
            "run": by_label[summary.label].run,
            "params": params_text(summary.params),
            "values": _plain(summary.params),
            "seconds": training_seconds(by_label[summary.label]),
        }
        for summary in summaries
    ]


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
        "seconds": rounded([trial.last_result.get("time_total_s")])[0],
        "stopped": trial.stop_reason,
    }


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters as table cells: finite numbers unchanged, other values as text."""
    return {
        name: value if is_number(value) and math.isfinite(value) else value_text(value)
        for name, value in params.items()
    }


MOST_SHOWN = 5


@dataclass(frozen=True)
class Ranked:
    """Entry in the list of best configurations on a report page.

    Attributes:
        label: Name of the configuration.
        seeds: Number of trials or populations of the configuration.
        iqm: Interquartile mean of the configuration's scores.
    """

    label: str
    seeds: int
    iqm: Estimate


@dataclass(frozen=True)
class Leader:
    """Leading configuration of a run, with its lead over the second-best one.

    Attributes:
        first: The leading configuration, followed by the next best ones; at least two in all.
        configurations: Total number of configurations with a score.
        lead: Difference between the first two configurations' means, with Welch's interval; positive if the first is
            better; None with a single seed.
        probability: Probability of improvement of the first over the second; None without a comparison.
        is_settled: Whether the lead over the second configuration is significant.
    """

    first: list[Ranked]
    configurations: int
    lead: Estimate | None
    probability: Estimate | None
    is_settled: bool


def leader_of(comparison: Comparison | None, summaries: Sequence[GroupSummary], mode: Mode) -> Leader | None:
    """Leading group of trials, with its lead; None if fewer than two groups have values.

    Args:
        comparison: Comparison of the groups; None if there are too many, so that the lead has no interval.
        summaries: Summaries of the groups, best first.
        mode: Whether higher or lower values of the metric are better.
    """
    if comparison is None:
        ranked = [Ranked(one.label, one.seeds, one.iqm) for one in summaries if one.iqm is not None]
        return Leader(ranked[:MOST_SHOWN], len(ranked), None, None, is_settled=False) if len(ranked) > 1 else None
    first, second = comparison.sides[:2]
    pair = next((p for p in comparison.pairs if {p.ahead, p.behind} == {first.label, second.label}), None)
    lead = None
    if min(first.samples, second.samples) > 1:
        better, worse = (first, second) if mode == "max" else (second, first)
        lead = mean_difference([better.end], [worse.end])
    return Leader(
        first=[Ranked(side.label, side.samples, side.at_end["iqm"]) for side in comparison.sides[:MOST_SHOWN]],
        configurations=len(comparison.sides),
        lead=lead,
        probability=None if pair is None or pair.ahead != first.label or lead is None else pair.probability,
        is_settled=pair is not None and pair.settled,
    )


def rank_order(comparison: Comparison | None, summaries: Sequence[GroupSummary]) -> list[str]:
    """Sorts the labels of all groups of trials, best first.

    Groups in the statistical comparison are listed first, in its order, and then the others in the order of
    `summaries`.
    """
    compared = [side.label for side in comparison.sides] if comparison is not None else []
    return list(dict.fromkeys([*compared, *(summary.label for summary in summaries)]))


def write_report(
    paths: Sequence[Path], output: Path, *, metrics: Sequence[str] = (), mode: Mode | None = None
) -> tuple[list[str], list[str]]:
    """Writes a report of one run or several.

    Args:
        paths: Directories of the runs.
        output: File to write, overwritten if it exists; missing parent folders are created.
        metrics: Metrics whose curves are shown; the first one ranks the trials. () for the metric
            that the runs optimize.
        mode: Whether higher or lower values of the first metric are better; None for the mode of the run's scheduler,
            else "max".

    Returns:
        Remarks on parts that could not be read, and on runs in which greedy and sampled actions differ.

    Raises:
        UsageError: If a directory is not a run, or a metric is reported by none of the runs.
    """
    trials = [trial for path in paths for trial in read_run_state(Path(path)).trials]  # their rows are not read
    shown, small = [*metrics, *usual_metrics(trials), *world_metrics(trials)], grid_metrics(trials)
    read = [*shown, *small, *KIND_METRICS]
    runs = read_runs(paths, read)
    require_reported(runs, metrics)
    metric, mode = chosen_goal(runs, metrics[0] if metrics else None, mode)
    if any(run.goal[0] != metric for run in runs):
        runs = read_runs(paths, [metric, *read])
    drawn = None if metrics else denser_counterpart(runs, metric)
    data = page_data(runs, metric, mode, shown, small, drawn=drawn)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page_of(data), encoding="utf-8")
    problems = [problem for run in data["runs"] for problem in run["problems"]]
    return problems, [run["kinds"] for run in data["runs"] if run["kinds"]]


def page_of(data: Mapping[str, Any]) -> str:
    """HTML of a report page, with the report's data embedded."""
    parts = {
        "title": html.escape(str(data["title"])),
        "style": (ASSETS / "page.css").read_text(encoding="utf-8"),
        "script": "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS),
        "data": embedded_json(data),
    }
    template = (ASSETS / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def embedded_json(data: Any) -> str:
    r"""Serializes data to JSON for an HTML script element, so that no text in the data can close the element.

    Examples:
        >>> print(embedded_json({"name": "</script>"}))
        {"name":"\u003c/script>"}
    """
    return json.dumps(plain(data), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
