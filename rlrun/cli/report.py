"""What is printed when a run has ended: a table of its trials, where it is, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.options import print_json
from rlrun.cli.tables import duration, stdout_width, table
from rlrun.cli.watch import shown_path
from rlrun.errors import TrainingFailed

if TYPE_CHECKING:
    from rlrun.tune.run_directory import TrialResult


def report(trials: Sequence[TrialResult], *, as_json: bool) -> None:
    """Prints the results of a run.

    Args:
        trials: The run's trials.
        as_json: Whether to print JSON and nothing else.

    Raises:
        TrainingFailed: If a trial failed; its message is what went wrong.
    """
    if as_json:
        print_json([trial_data(trial) for trial in trials])
    else:
        click.echo(results_table(trials))
        click.echo()
        click.echo("\n".join(next_steps(trials)))
    errors = [f"{trial.name}: {trial.error}" for trial in trials if trial.status == "ERROR"]
    if errors:
        raise TrainingFailed("\n\n".join(errors))


def results_table(trials: Sequence[TrialResult]) -> str:
    """Lays out what became of the trials, a row each."""
    rows = []
    for trial in trials:
        last = trial.last_result
        seconds = last.get("time_total_s")
        rows.append(
            [
                trial.name,
                trial.status.lower(),
                last.get("env_steps"),
                last.get("episode_return_mean"),
                last.get("evaluation/episode_return_mean"),
                None if seconds is None else duration(seconds),
                None if trial.checkpoint is None else trial.checkpoint.name,
                None if trial.best_checkpoint is None else trial.best_checkpoint.name,
            ]
        )
    headings = ["trial", "status", "env steps", "return", "evaluation", "time", "checkpoint", "best"]
    return table(headings, rows, stdout_width())


def next_steps(trials: Sequence[TrialResult]) -> list[str]:
    """Returns where the runs are and the commands that go on from here, a line each."""
    lines = []
    for run in dict.fromkeys(trial.directory.parent for trial in trials):
        mine = [trial for trial in trials if trial.directory.parent == run]
        lines.append(f"Run: {shown_path(run)}")
        saved = [trial for trial in mine if trial.checkpoint is not None]
        if saved:
            target = run if len(mine) == 1 else saved[0].directory
            best = " --best" if saved[0].best_checkpoint is not None else ""
            lines.append(f"  rlrun evaluate {shlex.quote(shown_path(target))}{best} --episodes 20")
        if any(trial.status != "TERMINATED" for trial in mine):
            lines.append(f"  rlrun resume {shlex.quote(shown_path(run))}")
    return lines


def trial_data(trial: TrialResult) -> dict[str, Any]:
    """Returns a trial's result as JSON-able data."""
    return {
        "name": trial.name,
        "status": trial.status,
        "seed": trial.seed,
        "params": dict(trial.params),
        "directory": str(trial.directory),
        "last_result": dict(trial.last_result) or None,
        "checkpoint": None if trial.checkpoint is None else str(trial.checkpoint),
        "best_checkpoint": None if trial.best_checkpoint is None else str(trial.best_checkpoint),
        "error": trial.error,
    }
