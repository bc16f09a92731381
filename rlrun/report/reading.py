"""Loading of runs for reports, in any state: running, killed, partly written, or with damaged trials.

A part that cannot be read is reported in a sentence, and all other parts are still read. No user code is imported,
since a report needs neither the env nor the algorithm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlrun.engine.messages.errors import RunDamaged, UsageError, did_you_mean
from rlrun.engine.settings.metric import Mode
from rlrun.experiments.runs.labels import Labels, read_labels
from rlrun.experiments.runs.run_directory import RunDirectory, RunTable
from rlrun.experiments.runs.run_state import read_run_state
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.search.decisions import StopDecision, read_stops
from rlrun.experiments.search.lineage import Generation, read_generations
from rlrun.experiments.spec.experiment import judged_by
from rlrun.experiments.spec.titles import algorithm_title, env_title
from rlrun.experiments.spec.tuning import kind_settings
from rlrun.experiments.trial.results import RETURN
from rlrun.report.step_axis import ENV_STEPS, SGD_STEPS, common_axis, counted_metric

DEFAULT_METRIC = RETURN
EVALUATION_METRIC = "evaluation/episode_return_mean"
AXES = {ENV_STEPS: ENV_STEPS, SGD_STEPS: SGD_STEPS, "time": "time_total_s"}
"""Horizontal axes of curves: name on the command line -> column of result.json."""


@dataclass(frozen=True)
class RunView:
    """Data of a run for reports.

    Attributes:
        path: Directory of the run.
        name: Name of the run's directory, with the parent folder's name if several runs share a name.
        table: Content of run.json.
        labels: Tags and note of the run.
        spec: Resolved spec of the run; {} if it cannot be read.
        trials: Results of the trials, in the order of the table.
        stops: Early-stopping decisions of the scheduler, in order.
        generations: Lineage of the populations (PBT); [] without populations.
        problems: Messages on parts that could not be read, one sentence each.
    """

    path: Path
    name: str
    table: RunTable
    labels: Labels
    spec: dict[str, Any]
    trials: tuple[TrialResult, ...]
    stops: tuple[StopDecision, ...]
    generations: tuple[Generation, ...]
    problems: tuple[str, ...]

    @property
    def reported(self) -> tuple[str, ...]:
        """Names of all metrics that at least one trial of the run reports."""
        return tuple(dict.fromkeys(name for trial in self.trials for name in trial.columns.reported))

    @property
    def algorithm(self) -> str:
        """Display name of the run's algorithm, or of its policies' algorithms; "?" if the spec cannot be read."""
        return algorithm_title(self.spec)

    @property
    def env(self) -> str:
        """Display name of the run's env: the id, or a search space over ids; "?" if the spec cannot be read."""
        return env_title(self.spec.get("env"))

    @property
    def goal(self) -> tuple[str, Mode]:
        """Metric that the run optimizes, and whether it is maximized or minimized."""
        return goal_of(self.spec)


def goal_of(spec: Mapping[str, Any]) -> tuple[str, Mode]:
    """Metric that an experiment optimizes, and whether it is maximized or minimized.

    The metric of the scheduler or searcher takes precedence over the metric of the best checkpoint, unless the
    scheduler or searcher uses the default metric, the return in training.
    """
    for key in ("scheduler", "searcher"):
        settings = kind_settings(spec.get(key))
        goal: tuple[Any, Mode] = settings.get("metric"), "min" if settings.get("mode") == "min" else "max"
        if isinstance(goal[0], str) and goal != (DEFAULT_METRIC, "max"):
            return goal
    return judged_by(spec), "max"


def counterpart(metric: str) -> str | None:
    """Evaluation metric that corresponds to a return in training, or the reverse; None for other metrics.

    The counterpart of a policy's return is the return of the same policy, not of all agents.

    Examples:
        >>> counterpart("episode_return_mean"), counterpart("evaluation/policies/left/episode_return_mean")
        ('evaluation/episode_return_mean', 'policies/left/episode_return_mean')
        >>> counterpart("league/elo_main") is None
        True
    """
    if metric.rpartition("/")[2] != DEFAULT_METRIC:
        return None
    return metric.removeprefix("evaluation/") if metric.startswith("evaluation/") else f"evaluation/{metric}"


FEW_VALUES = 8
"""Number of values of a metric in a trial below which its learning curve hides the course of learning."""


def denser_counterpart(runs: Sequence[RunView], metric: str) -> str | None:
    """Training return to draw in place of an evaluation metric with few values in every trial; None to keep the metric.

    The first evaluation may come after most of the learning, so the curve of a few evaluations can be flat.
    """
    other = counterpart(metric)
    if other is None or not metric.startswith("evaluation/") or not all(other in run.reported for run in runs):
        return None
    import numpy as np

    columns = [trial.columns.values[metric] for run in runs for trial in run.trials]
    most_values = max((int(np.isfinite(column).sum()) for column in columns), default=0)
    most_rows = max(map(len, columns), default=0)
    return other if most_values < min(FEW_VALUES, most_rows / 2) else None


def read_runs(paths: Sequence[Path], metrics: Iterable[str] = ()) -> list[RunView]:
    """Loads several runs, each once, under distinct names.

    Args:
        paths: Directories of the runs.
        metrics: Columns to read, as for `read_run`.

    Raises:
        UsageError: If a directory is not a run, or its run.json cannot be read.
    """
    metrics = tuple(metrics)
    distinct = list(dict.fromkeys(Path(path).resolve() for path in paths))
    names = Counter(path.name for path in distinct)
    return [
        read_run(path, metrics, name=path.name if names[path.name] == 1 else f"{path.parent.name}/{path.name}")
        for path in distinct
    ]


def read_run(path: Path, metrics: Iterable[str] = (), *, name: str | None = None) -> RunView:
    """Loads a run for reports.

    Args:
        path: Directory of the run.
        metrics: Columns of the results to read. The run's goal, the counterparts of these metrics, the metrics of
            `expect` and `AXES` are read as well.
        name: Name of the run in the report; None for the name of its directory.

    Raises:
        UsageError: If the directory is not a run, or its run.json cannot be read.
    """
    run = RunDirectory.open(path)
    problems: list[str] = []
    spec = _read_spec(run, problems)
    shown = [goal_of(spec)[0], *metrics]
    counterparts = [other for metric in shown if (other := counterpart(metric)) is not None]
    wanted = tuple(dict.fromkeys([*shown, *counterparts, *_expected(spec), *AXES.values()]))
    states = read_run_state(run.path).trials
    trials = tuple(replace(state, metrics=wanted) for state in states)
    problems += [problem for trial in trials for problem in trial.problems]
    return RunView(
        path=run.path,
        name=name or run.path.name,
        table=run.table,
        labels=_read_labels(run.path, problems),
        spec=spec,
        trials=trials,
        stops=tuple(read_stops(run.path).values()),
        generations=tuple(read_generations(run.path)),
        problems=tuple(problems),
    )


def read_judged_runs(paths: Sequence[Path], metric: str | None, mode: Mode | None) -> tuple[list[RunView], str, Mode]:
    """Loads runs and chooses the metric that ranks their trials; see `chosen_goal`.

    Raises:
        UsageError: If a directory is not a run, or no run reports the metric.
    """
    runs = read_runs(paths, [metric] if metric else [])
    metric, mode = chosen_goal(runs, metric, mode)
    require_reported(runs, [metric])
    if any(run.goal[0] != metric for run in runs):  # this metric's column has not been read for them yet
        runs = read_runs(paths, [metric])
    return runs, metric, mode


def chosen_goal(runs: Sequence[RunView], metric: str | None, mode: Mode | None) -> tuple[str, Mode]:
    """Metric that ranks the trials of runs, and its mode: the user's choice, else the first goal that all runs report.

    If the runs report no common goal, for example because only some of them evaluate, a return is used.
    """
    goals = dict(run.goal for run in reversed(runs))
    chosen = metric or _common_goal(runs)
    return chosen, mode or goals.get(chosen, "max")


def _common_goal(runs: Sequence[RunView]) -> str:
    goals = list(dict.fromkeys(run.goal[0] for run in runs))
    reported = [set(run.reported) for run in runs if run.reported]
    usual = [EVALUATION_METRIC, DEFAULT_METRIC]
    return next((goal for goal in [*goals, *usual] if all(goal in names for names in reported)), goals[0])


def metric_of_all(runs: Sequence[RunView], metric: str) -> tuple[str, str]:
    """Metric by which all finished trials can be compared, and a note if it differs from `metric`.

    A scheduler may stop a trial before its first evaluation; returns in training are then used instead of evaluations.

    Args:
        runs: The runs, read with the metric and its counterpart.
        metric: The metric that ranks the trials.
    """
    finished = [trial for run in runs for trial in run.trials if trial.status == "TERMINATED"]
    without = [trial for trial in finished if trial.final(metric) is None]
    other = counterpart(metric)
    if not without or other is None or any(trial.final(other) is None for trial in finished):
        return metric, ""
    trials = "1 trial" if len(without) == 1 else f"{len(without)} trials"
    return other, f"compared by {other}, which all trials have, because {trials} ended without a value of {metric}"


def axis_of(runs: Iterable[RunView], name: str | None) -> str:
    """Result column for the horizontal axis of the runs' learning curves.

    Args:
        runs: The runs.
        name: One of `AXES`; None for the unit of steps that `common_axis` selects.
    """
    return common_axis(trial.last_result for run in runs for trial in run.trials) if name is None else AXES[name]


def missing_returns(runs: Iterable[RunView], metric: str) -> str:
    """Hint for an error message: an offline run has no returns, so `metric` must be another one, such as a loss.

    Returns "" if `metric` is not a return, or all runs step envs.
    """
    for run in runs:
        if metric.endswith(RETURN) and counted_metric(trial.last_result for trial in run.trials) == SGD_STEPS:
            last = next(trial.last_result for trial in run.trials if trial.last_result)
            other = next((name for name in last if name.startswith("learner/")), "time_total_s")
            return (
                f"; the run learns from data and does not evaluate: pass --metric with another metric, such as {other}"
            )
    return ""


def require_reported(runs: Sequence[RunView], names: Iterable[str]) -> None:
    """Validates that each metric is reported by at least one of the runs.

    Raises:
        UsageError: If a metric is not reported; the message suggests the most similar one.
    """
    reported = list(dict.fromkeys(name for run in runs for name in run.reported))
    for name in names:
        if reported and name not in reported:
            who = runs[0].name if len(runs) == 1 else "none of the runs"
            does = "does not report" if len(runs) == 1 else "reports"
            raise UsageError(f"{who} {does} '{name}'{did_you_mean(name, reported)}")


def _read_spec(run: RunDirectory, problems: list[str]) -> dict[str, Any]:
    try:
        return run.spec()[0]
    except (RunDamaged, OSError) as error:
        problems.append(str(error))
        return {}


def _read_labels(run: Path, problems: list[str]) -> Labels:
    try:
        return read_labels(run)
    except RunDamaged as error:
        problems.append(str(error))
        return Labels()


def _expected(spec: Mapping[str, Any]) -> list[str]:
    """Keys of the spec's `expect`: metrics, and other settings, which have no column."""
    expect = spec.get("expect")
    return [*expect] if isinstance(expect, dict) else []
