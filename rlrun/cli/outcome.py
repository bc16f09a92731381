"""Output of a command after a run: a table of its trials, its directory, and suggested next commands."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlrun.cli.json_document import print_json, wants_json
from rlrun.cli.tables import MOST_ROWS, cell_text, configurations_table, echo, left_out, listed, metric_words
from rlrun.cli.trial_progress import training_time
from rlrun.engine.messages.errors import RlrunError
from rlrun.experiments.runs.outcome import failure_of, resume_command, shown_path
from rlrun.experiments.runs.trial_status import is_complete
from rlrun.report.action_kinds import differing_line
from rlrun.report.games import GAMES, OUTCOMES, are_games
from rlrun.report.plain_json import fields_of
from rlrun.report.step_axis import STEP_NAMES, counted_metric

if TYPE_CHECKING:
    from rlrun.experiments.runs.trial_result import TrialResult

MOST_BEST = 10
"""Number of the best trials that are listed for a large run."""
RETURNS = {"return": "episode_return_mean", "evaluation": "evaluation/episode_return_mean"}
"""Metrics of the table of trials, by heading."""


def print_outcome(trials: Sequence[TrialResult]) -> None:
    """Prints the results of a run.

    Args:
        trials: The run's trials.

    Raises:
        TrainingFailed: If a trial has failed or is not complete; the message includes the trial's error.
    """
    if wants_json():
        print_json({"trials": [trial_data(trial) for trial in trials]})
    else:
        echo("\n\n".join([*over_seeds(trials), *few_trials(trials), "\n".join(next_steps(trials))]))
    failure = failure_of(trials)
    if failure is not None:
        raise failure


def over_seeds(trials: Sequence[TrialResult]) -> list[str]:
    """Formats, for each run, a table of its configurations aggregated over seeds.

    A run without populations (PBT) gets a table only if it varies both settings and seeds.
    """
    from rlrun.report.configurations import groups_of
    from rlrun.report.reading import read_run
    from rlrun.report.summary import summarise

    tables: list[str] = []
    for directory in dict.fromkeys(trial.directory.parent for trial in trials):
        run = read_run(directory)
        groups = groups_of(run)
        is_population = any(trial.population is not None for trial in run.trials)
        if (len(groups) > 1 and len(groups) < len(run.trials)) or is_population:
            metric, mode = run.goal
            found = configurations_table(summarise(groups, metric, mode), metric, more=_show_all(directory))
            tables += [f"{run.name}: {found}"] if found else []
    return tables


def few_trials(trials: Sequence[TrialResult]) -> list[str]:
    """Formats trials as a table; for a large run, the best and failed trials, and a hint on how to list the others."""
    if len(trials) <= MOST_ROWS:
        return [results_table(trials)]
    ordered = sorted(trials, key=_rank, reverse=True)
    kept = {trial.directory for trial in [*ordered[:MOST_BEST], *(one for one in ordered if one.status == "ERROR")]}
    shown = [trial for trial in ordered if trial.directory in kept][:MOST_ROWS]
    more = " and ".join(dict.fromkeys(_show_all(trial.directory.parent) for trial in trials))
    return [results_table(shown) + left_out(len(trials) - len(shown), more)]


def results_table(trials: Sequence[TrialResult]) -> str:
    """Formats trials and their results as a table; the checkpoint column shows the checkpoint's iteration.

    With several runs, each trial's name is prefixed with the run's name.
    """
    is_one_run = len({trial.directory.parent for trial in trials}) == 1
    metric = counted_metric(trial.last_result for trial in trials)
    judged = {trial.judged_by for trial in trials}
    best = f"best {metric_words(judged.pop())}" if len(judged) == 1 else "best"
    shown = {heading: f"{GAMES}{rate}" for heading, rate in OUTCOMES.items()} if are_games(trials) else RETURNS
    columns: dict[str, Callable[[TrialResult], Any]] = {
        "trial": lambda trial: trial.name if is_one_run else f"{trial.directory.parent.name}/{trial.name}",
        "status": lambda trial: trial.shown_status,
        STEP_NAMES[metric]: lambda trial: trial.last_result.get(metric),
        **{heading: last_value(metric) for heading, metric in shown.items()},
        best: lambda trial: trial.best_score,
        "time": lambda trial: training_time(trial.last_result),
        "checkpoint": lambda trial: trial.checkpoint and int(trial.checkpoint.name.rpartition("_")[2]),
    }
    return listed(trials, columns, expendable=["checkpoint", "time", "evaluation"])


def last_value(metric: str) -> Callable[[TrialResult], Any]:
    """Creates a function that returns a trial's last value of a metric."""
    return lambda trial: trial.last_result.get(metric)


def next_steps(trials: Sequence[TrialResult]) -> list[str]:
    """Yields the last lines of a command's output: the directories of the runs, and suggested next commands."""
    lines = []
    for run in dict.fromkeys(trial.directory.parent for trial in trials):
        mine = [trial for trial in trials if trial.directory.parent == run]
        lines.append(f"Run: {shown_path(run)}")
        lines += [f"warning: {text}" for text in _unreported(run, mine)]
        saved = [trial for trial in mine if trial.checkpoint is not None]
        if saved:
            leader = max(saved, key=_rank)
            target = run if len(mine) == 1 else leader.directory
            best = " --best" if leader.best_checkpoint is not None else ""
            if leader.best_score is not None:
                words, value = metric_words(leader.judged_by), cell_text(leader.best_score)
                several = f"Best trial: {leader.name} ({words} {value})"
                lines.append(several if len(mine) > 1 else f"Best {words}: {value}")
            if differing := differing_line({trial.name: trial.last_result.get for trial in mine}):
                lines.append(differing)
            env = " --env ID" if _lacks_env(leader) else ""
            lines.append(f"  rlrun evaluate {shlex.quote(shown_path(target))}{best}{env} --episodes 20")
        if any(trial.last_result for trial in mine):
            lines.append(f"  tensorboard --logdir {shlex.quote(shown_path(run))}")
        if not all(is_complete(trial.status) for trial in mine):
            failed = any(trial.status == "ERROR" for trial in mine)
            lines.append(f"  {resume_command(run, retry_failed=failed)}")
    return lines


def _unreported(run: Path, trials: Sequence[TrialResult]) -> list[str]:
    """Messages on the metrics that a run's spec names but its trials have not reported."""
    from rlrun.experiments.runs.run_directory import RunDirectory
    from rlrun.experiments.runs.unreported_metrics import unreported_metrics

    try:
        return unreported_metrics(RunDirectory.open(run).spec()[0], trials)
    except (RlrunError, OSError):
        return []


def _lacks_env(trial: TrialResult) -> bool:
    """Whether a trial learned from data or external simulators, so that the user must name an env to evaluate in."""
    from rlrun.engine.envs.env_config import EXTERNAL
    from rlrun.engine.messages.errors import RunDamaged
    from rlrun.experiments.spec.titles import WITHOUT_ENV_TITLE, env_title
    from rlrun.experiments.trial.trial_directory import TrialDirectory

    try:
        return env_title(TrialDirectory(trial.directory).read_spec().get("env")) in (WITHOUT_ENV_TITLE, EXTERNAL)
    except RunDamaged:
        return False


def trial_data(trial: TrialResult) -> dict[str, Any]:
    """Serializes a trial's result to JSON data."""
    return {
        **fields_of(trial, "name", "status", "seed", "params", "directory", "judged_by", "error"),
        **fields_of(trial, "checkpoint", "best_checkpoint"),
        "last_result": dict(trial.last_result) or None,
        "best": trial.best_score,
    }


def _show_all(run: Path) -> str:
    return f"rlrun show {shlex.quote(shown_path(run))} --all"


def _rank(trial: TrialResult) -> float:
    return -math.inf if trial.best_score is None else trial.best_score
