"""``rlrun runs``: the runs in the runs folder and how they stand."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.options import json_option, print_json, runs_dir_option
from rlrun.cli.tables import duration, stdout_width, table

if TYPE_CHECKING:
    from rlrun.trial.trial_directory import TrialDirectory

KILLED = "KILLED"  # trial.json says RUNNING, but no process does: `rlrun resume` goes on with it


@click.command()
@runs_dir_option
@json_option("the runs")
def runs(runs_dir: Path, as_json: bool) -> None:
    """List the runs: status, trials, best return, env steps, age."""
    from rlrun.cli.targets import run_names

    found = [_run_data(runs_dir / name) for name in run_names(runs_dir)]
    found.sort(key=lambda run: float(run["age_s"]))
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo(f"No runs in {runs_dir}. Begin one: rlrun train --algorithm ppo --env CartPole-v1")
        return
    rows = [
        [
            run["name"],
            _counted(run["trials"]),
            len(run["trials"]),
            run["best_return"],
            run["env_steps"],
            f"{duration(run['age_s'])} ago",
        ]
        for run in found
    ]
    click.echo(table(["run", "status", "trials", "best", "env steps", "last change"], rows, stdout_width(), ["trials"]))


def _run_data(run: Path) -> dict[str, Any]:
    from rlrun.cli.targets import RUN_FILE, trial_directories
    from rlrun.trial.results import RESULT_FILE
    from rlrun.trial.trial_directory import TRIAL_FILE, TrialDirectory

    directories = trial_directories(run)
    trials = [_trial_data(TrialDirectory(directory)) for directory in directories]
    files = [run / RUN_FILE, *(trial / name for trial in directories for name in (TRIAL_FILE, RESULT_FILE))]
    changed = max(file.stat().st_mtime for file in files if file.exists())
    return {
        "name": run.name,
        "directory": str(run),
        "best_return": max(
            (trial["best_return"] for trial in trials if trial["best_return"] is not None), default=None
        ),
        "env_steps": sum(trial["env_steps"] for trial in trials),
        "age_s": max(0.0, time.time() - changed),
        "trials": trials,
    }


def _trial_data(trial: TrialDirectory) -> dict[str, Any]:
    from rlrun.trial.results import read_results

    record = trial.read_record()
    if record is None:  # removed between listing and reading
        return {"name": trial.path.name, "status": "PENDING", "env_steps": 0, "best_return": None}
    rows = read_results(trial.path)
    returns = [row["episode_return_mean"] for row in rows if row.get("episode_return_mean") is not None]
    return {
        "name": record.name,
        "status": KILLED if record.status == "RUNNING" and not trial.is_claimed() else record.status,
        "env_steps": rows[-1]["env_steps"] if rows else record.env_steps,
        "best_return": max(returns, default=None),
    }


def _counted(trials: Iterable[dict[str, Any]]) -> str:
    """Returns "terminated", or "3 terminated, 1 running" where the trials differ."""
    counts = Counter(str(trial["status"]).lower() for trial in trials)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {status}" for status, count in counts.items()) or "empty"
