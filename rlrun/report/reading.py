"""Reads a run as it stands, whatever state it is in: running, killed, half written, with a damaged trial.

What cannot be read is told in a sentence, and the rest goes on. Nothing of the user's code is imported: a report needs
neither the env nor the algorithm.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlrun.checkpoint.plain_yaml import load_plain_yaml
from rlrun.errors import UsageError, did_you_mean
from rlrun.runs.run_directory import SPEC_FILE, RunDirectory, RunTable
from rlrun.runs.run_state import TrialState, read_run_state
from rlrun.search.decisions import StopDecision, read_stops
from rlrun.search.lineage import Generation, read_generations
from rlrun.trial.results import Row, read_results

Floats = NDArray[np.float64]
Mode = Literal["max", "min"]

DEFAULT_METRIC = "episode_return_mean"
AXES = {"env_steps": "env_steps", "time": "time_total_s"}
"""What curves are drawn over, as the command line says it -> the column of result.json."""


@dataclass(frozen=True)
class TrialView:
    """One trial as a report sees it.

    Attributes:
        name: Its name.
        seed: Its root seed.
        params: What varies, with this trial's values (with pbt and pb2 the newest ones).
        configuration: Number of its configuration, None where the run was made before there were any.
        population: Seed of its population, None for a trial on its own.
        status: As `rlrun.runs.run_state` tells it: that of trial.json, or KILLED, or DAMAGED.
        stop_reason: Why it is done, "" before.
        error: What went wrong, "" if nothing did.
        directory: Its directory.
        last: Its newest row, {} before the first.
        columns: Metric -> its values, row by row; NaN where a row has none.
        reported: Names of all metrics in its rows.
    """

    name: str
    seed: int
    params: dict[str, Any]
    configuration: int | None
    population: int | None
    status: str
    stop_reason: str
    error: str
    directory: Path
    last: Row = field(default_factory=dict)
    columns: dict[str, Floats] = field(default_factory=dict)
    reported: tuple[str, ...] = ()

    def points(self, metric: str, axis: str) -> tuple[Floats, Floats]:
        """Returns where a metric was reported and its values there, both [N], in ascending order of x.

        Args:
            metric: A column that was read.
            axis: The column it is seen over.
        """
        none = np.empty(0)
        xs, ys = self.columns.get(axis, none), self.columns.get(metric, none)
        if len(xs) != len(ys):
            return none, none
        there = np.isfinite(xs) & np.isfinite(ys)
        xs, ys = xs[there], ys[there]
        order = np.argsort(xs, kind="stable")
        return xs[order], ys[order]

    def final(self, metric: str) -> float | None:
        """Returns the last value of a metric, None if it has none."""
        values = self.columns.get(metric, np.empty(0))
        values = values[np.isfinite(values)]
        return float(values[-1]) if len(values) else None

    def best(self, metric: str, mode: Mode = "max") -> float | None:
        """Returns the best value of a metric at any time, None if it has none."""
        values = self.columns.get(metric, np.empty(0))
        values = values[np.isfinite(values)]
        return None if not len(values) else float(values.max() if mode == "max" else values.min())


@dataclass(frozen=True)
class RunView:
    """One run as a report sees it.

    Attributes:
        path: Its directory.
        name: That of its directory; where several runs share one, the folder above it as well.
        table: What its run.json says.
        spec: The resolved entry of its spec file, {} if that cannot be read.
        spec_text: The resolved spec as text.
        trials: Its trials in the order of the table.
        stops: What a scheduler has ended, in the order of its decisions.
        generations: The lineage of its populations, [] if it has none.
        problems: What could not be read, a sentence each.
    """

    path: Path
    name: str
    table: RunTable
    spec: dict[str, Any]
    spec_text: str
    trials: tuple[TrialView, ...]
    stops: tuple[StopDecision, ...]
    generations: tuple[Generation, ...]
    problems: tuple[str, ...]

    @property
    def reported(self) -> tuple[str, ...]:
        """Names of all metrics that any of its trials reports."""
        return tuple(dict.fromkeys(name for trial in self.trials for name in trial.reported))

    @property
    def algorithm(self) -> str:
        """Name of its algorithm, "?" if its spec cannot be read."""
        return str(self.spec.get("algorithm", "?"))

    @property
    def env(self) -> str:
        """Id of its env, "?" if its spec cannot be read; where several are searched over, the search space."""
        env = self.spec.get("env")
        return str(env.get("id", "?") if isinstance(env, dict) else env or "?")

    @property
    def goal(self) -> tuple[str, Mode]:
        """The metric that the run is about, and whether more or less of it is better."""
        return goal_of(self.spec)


def goal_of(spec: Mapping[str, Any]) -> tuple[str, Mode]:
    """Returns the metric that an experiment is about, and whether more or less of it is better.

    It is what its scheduler or searcher goes by, else what its best checkpoints are chosen by.
    """
    for key in ("scheduler", "searcher"):
        settings = _only_value(spec.get(key))
        if isinstance(settings.get("metric"), str):
            return settings["metric"], "min" if settings.get("mode") == "min" else "max"
    checkpoint = spec.get("checkpoint")
    best = checkpoint.get("best") if isinstance(checkpoint, dict) else None
    return (best if isinstance(best, str) else DEFAULT_METRIC), "max"


def read_runs(paths: Sequence[Path], metrics: Iterable[str] = ()) -> list[RunView]:
    """Reads several runs, each of them once, under names that differ.

    Args:
        paths: Their directories.
        metrics: As `read_run` takes them.

    Raises:
        UsageError: If one is no run, or its table cannot be read.
    """
    metrics = tuple(metrics)
    distinct = list(dict.fromkeys(Path(path).resolve() for path in paths))
    names = Counter(path.name for path in distinct)
    return [
        read_run(path, metrics, name=path.name if names[path.name] == 1 else f"{path.parent.name}/{path.name}")
        for path in distinct
    ]


def read_run(path: Path, metrics: Iterable[str] = (), *, name: str | None = None) -> RunView:
    """Reads a run.

    Args:
        path: Its directory.
        metrics: Columns of the results that are wanted, besides those of its goal, of what it expects, and of `AXES`.
        name: What to call it, None for the name of its directory.

    Raises:
        UsageError: If it is no run, or its table cannot be read.
    """
    run = RunDirectory.open(path)
    problems: list[str] = []
    spec, text = _read_spec(run, problems)
    wanted = tuple(dict.fromkeys([goal_of(spec)[0], *metrics, *_expected(spec), *AXES.values()]))
    states = read_run_state(run.path).trials
    trials = tuple(_read_trial(state, run.path / state.name, wanted, problems) for state in states)
    return RunView(
        path=run.path,
        name=name or run.path.name,
        table=run.table,
        spec=spec,
        spec_text=text,
        trials=trials,
        stops=tuple(read_stops(run.path).values()),
        generations=tuple(read_generations(run.path)),
        problems=tuple(problems),
    )


def chosen_goal(runs: Sequence[RunView], metric: str | None, mode: Mode | None) -> tuple[str, Mode]:
    """Returns what runs are looked at by: what the user said, else the goal of the first of them."""
    goals = dict(run.goal for run in reversed(runs))
    chosen = metric or runs[0].goal[0]
    return chosen, mode or goals.get(chosen, "max")


def require_reported(runs: Sequence[RunView], names: Iterable[str]) -> None:
    """Makes sure that a metric that a user named is reported by one of the runs at least.

    Raises:
        UsageError: If it is not; it names the nearest one.
    """
    reported = list(dict.fromkeys(name for run in runs for name in run.reported))
    for name in names:
        if reported and name not in reported:
            who = runs[0].name if len(runs) == 1 else "none of the runs"
            does = "does not report" if len(runs) == 1 else "reports"
            raise UsageError(f"{who} {does} '{name}'{did_you_mean(name, reported)}")


def _read_spec(run: RunDirectory, problems: list[str]) -> tuple[dict[str, Any], str]:
    path = run.path / SPEC_FILE
    try:
        text = path.read_text()
        entry = load_plain_yaml(text)[run.table.experiment]
    except (OSError, ValueError, KeyError, TypeError) as error:
        problems.append(f"{path}: cannot be read: {error}")
        return {}, ""
    return (entry if isinstance(entry, dict) else {}), text


def _read_trial(state: TrialState, directory: Path, metrics: Sequence[str], problems: list[str]) -> TrialView:
    """Reads the results of a trial to what is known of it."""
    if state.is_damaged:
        problems.append(state.error)
    try:
        rows = read_results(directory)
    except OSError as error:
        problems.append(f"{state.name}: its results cannot be read: {error}")
        rows = []
    return TrialView(
        name=state.name,
        seed=state.seed or 0,
        params=dict(state.params),
        configuration=state.configuration,
        population=state.population,
        status=state.status,
        stop_reason=state.stop_reason,
        error="" if state.is_damaged else state.error,
        directory=directory,
        last=rows[-1] if rows else {},
        columns={metric: _column(rows, metric) for metric in metrics},
        reported=tuple(dict.fromkeys(key for row in rows for key in row)),
    )


def _column(rows: Sequence[Row], metric: str) -> Floats:
    return np.array([_number(row.get(metric)) for row in rows], np.float64)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def _expected(spec: Mapping[str, Any]) -> list[str]:
    """Returns the names below `expect`; those that are no metrics are columns that no row has."""
    expect = spec.get("expect")
    return list(expect) if isinstance(expect, dict) else []


def _only_value(data: Any) -> dict[str, Any]:
    """Returns the settings in ``{name: settings}``, {} for anything else."""
    values = list(data.values()) if isinstance(data, dict) else []
    return next((value for value in values if isinstance(value, dict)), {})
