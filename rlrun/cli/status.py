"""``rlrun status RUN``: the progress of a run, from any shell."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.exits import require_complete
from rlrun.cli.json_document import print_json, wants_json
from rlrun.cli.options import complete_runs, json_option, runs_dir_option
from rlrun.cli.runs import labels_lines
from rlrun.cli.tables import duration, echo
from rlrun.engine.messages.errors import RlrunError
from rlrun.experiments.runs.run_lock import who_runs
from rlrun.report.plain_json import fields_of

if TYPE_CHECKING:
    from rlrun.cli.run_progress import RunProgress
    from rlrun.experiments.runs.copy_owner import LastOwner
    from rlrun.experiments.runs.run_state import RunState

REFRESH_S = 2.0
MOST_ERRORS = 3


@click.command()
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@click.option("--watch", "watches", is_flag=True, help="Refresh every two seconds until the run ends.")
@runs_dir_option
@json_option("the run")
def status(run: str, watches: bool, runs_dir: Path) -> None:
    """Show the progress of a run, even while another shell is running it.

    Lists the trials with their nodes and processes, the best value so far, the
    remaining time, and the resources that trials are waiting for. If the run is not
    running on this machine, but a process on another machine owns its copy in
    remote storage, that process is shown; while it renews its ownership, no resume
    command is suggested. If some files are damaged, the exit code is 5.
    """
    from rlrun.cli.targets import run_named
    from rlrun.experiments.runs.run_state import read_run_state

    if watches and wants_json():
        raise click.UsageError("--watch and --json cannot be combined; leave one out")
    directory = run_named(run, runs_dir)
    if watches and sys.stdout.isatty():
        _watch(directory)
    state = read_run_state(directory)
    while watches and state.drivers:
        echo(_described(state, progress_of(state).summary(time.time())))
        time.sleep(REFRESH_S)
        state = read_run_state(directory)
    waiting = _waiting(state, runs_dir)
    owner, problem = _owner_elsewhere(state)
    if wants_json():
        print_json({**run_data(state, owner, problem), "waiting": waiting})
    else:
        _print(state, waiting, owner, problem)
    require_complete(directory, [*state.problems, *(text for trial in state.trials for text in trial.obvious_problems)])


def progress_of(state: RunState) -> RunProgress:
    """Loads the progress of a run from its files, for the live view; times are Unix timestamps."""
    from rlrun.cli.run_progress import RunProgress
    from rlrun.cli.trial_progress import STOPPED, TrialProgress

    run = RunProgress({})
    for trial in state.trials:
        run.trials[trial.name] = progress = TrialProgress(
            trial.name,
            state.stop,
            trial.params,
            seed=trial.seed if trial.population is None else trial.population,
            group=trial.configuration if trial.population is None else None,
            status=STOPPED if trial.is_stopped_early else trial.status,
            place=trial.place if trial.status == "RUNNING" else "",
            best=trial.best_score,
            judged_by=trial.judged_by,
        )
        progress.read(trial.last_result or None, trial.changed)
    run.count_slots()
    return run


def run_data(state: RunState, owner: LastOwner | None, problem: str) -> dict[str, Any]:
    """Serializes a run's state to JSON data.

    Args:
        state: State of the run.
        owner: Owner of the run's copy in remote storage; None if no process on another machine owns it.
        problem: Error that prevented looking up the owner; "" if there was none.
    """
    run = progress_of(state)
    leader = run.leader()
    return {
        "name": state.path.name,
        "directory": str(state.path),
        "experiment": state.experiment,
        **asdict(state.labels),
        "drivers": [
            {"pid": driver.pid or None, "host": driver.host, "shard": driver.shard and str(driver.shard)}
            for driver in state.drivers
        ],
        "owner": owner
        and {**fields_of(owner.record, "host", "pid", "started", "generation"), "renewed_s_ago": owner.renewed_s_ago},
        "stop": dict(state.stop),
        "age_s": max(0.0, time.time() - state.changed),
        "seconds_left": run.seconds_left(time.time()) if state.drivers else None,
        "best": leader and asdict(leader),
        "trials": [
            {
                **fields_of(trial, "name", "status", "seed", "params", "env_steps", "best_return", "judged_by"),
                **fields_of(trial, "error", "ended_in"),
                "where": trial.place,
                "iteration": trial.last_result.get("iteration", 0),
                "env_steps_per_s": trial.last_result.get("env_steps_per_s"),
                "return": trial.last_result.get("episode_return_mean"),
                "best": trial.best_score,
                "problems": trial.obvious_problems,
            }
            for trial in state.trials
        ],
        "resume": _resume_command(state, owner),
        "problem": "; ".join(filter(None, [*state.problems, problem])),
    }


def _owner_elsewhere(state: RunState) -> tuple[LastOwner | None, str]:
    """Owner of the run's copy in remote storage, unless a process of this machine runs it; and the error if unknown."""
    from rlrun.experiments.runs.copy_owner import owner_of

    if state.copy is None or state.drivers:
        return None, ""
    try:
        return owner_of(state.copy), ""
    except RlrunError as error:
        return None, str(error)


def _waiting(state: RunState, runs_dir: Path) -> str:
    """Message about the trials that wait for Ray's resources, and the needs of the next one; "" if none waits."""
    from rlrun.cli.targets import is_own
    from rlrun.experiments.cluster.resources import TrialResources
    from rlrun.experiments.runs.run_directory import RunDirectory

    pending = [trial.name for trial in state.trials if trial.status == "PENDING"]
    if not state.drivers or state.problem or not pending or not is_own(state.path, runs_dir):
        return ""
    run = RunDirectory.open(state.path)
    if run.table.executor != "ray":
        return ""
    wait = "1 trial is waiting" if len(pending) == 1 else f"{len(pending)} trials are waiting"
    return f"{wait} for resources: {pending[0]} needs {TrialResources.of(run.trial(pending[0]))}"


def _described(state: RunState, text: str) -> str:
    """Formats one line on a run: name, driver process, time since the last change, and a text."""
    is_over = state.is_over
    ending = [trial.place or trial.name for trial in state.trials if trial.status == "RUNNING"]
    if state.drivers:
        driver = who_runs(state.drivers, "it")
    elif ending:
        driver = f"its driver has ended, but {', '.join(ending)} is still saving"
    else:
        driver = "ended" if is_over else "no process is running it"
    age = duration(max(0.0, time.time() - state.changed))
    return f"{state.path.name}: {driver}, last change {age} ago{f'; {text}' if text else ''}"


def _owned(state: RunState, owner: LastOwner | None) -> str:
    """Line that names the owner of the run's copy, and its last renewal if it may have ended; "" without an owner."""
    if owner is None:
        return ""
    age = "" if owner.is_alive else f", which renewed its record {duration(owner.renewed_s_ago)} ago"
    return f"Owner of the copy {state.copy}: {owner.record}{age}"


def _notes(state: RunState, owner: LastOwner | None) -> list[str]:
    """Lines below the table: problems, errors, crashed episodes, and the command to resume."""
    lines = list(state.problems)
    wrong = [trial for trial in state.trials if trial.error and (trial.is_damaged or trial.status == "ERROR")]
    lines += _first([f"{trial.name}: {trial.short_error}" for trial in wrong], "shows all errors")
    altered = [text for trial in state.trials if not trial.is_damaged for text in trial.obvious_problems]
    lines += _first(altered, "lists all of them")
    lines += _first([trial.early_end for trial in state.trials if trial.early_end], "shows all reasons")
    lines += [f"{trial.name}: {trial.ended_in}" for trial in state.trials if trial.ended_in][:MOST_ERRORS]
    command = _resume_command(state, owner)
    return [*lines, *([f"Resume it: {command}"] if command else [])]


def _first(lines: list[str], rest: str) -> list[str]:
    """Truncates lines to the first few, with a footer; `rest` completes the footer's hint at `rlrun show`."""
    more = len(lines) - MOST_ERRORS
    return lines[:MOST_ERRORS] + ([f"... and {more} more; `rlrun show` {rest}"] if more > 0 else [])


def _resume_command(state: RunState, owner: LastOwner | None) -> str | None:
    """Command that resumes a run; None if there is nothing to resume, or a process runs it, here or elsewhere."""
    from rlrun.experiments.runs.outcome import resume_command

    if state.drivers or state.is_over or state.problem or (owner is not None and owner.is_alive):
        return None
    if any(trial.status == "RUNNING" for trial in state.trials):  # without a driver, its process will end soon
        return None
    return resume_command(state.path)


def _print(state: RunState, waiting: str, owner: LastOwner | None, problem: str) -> None:
    """Prints the full table once, colored and truncated to the terminal's width, and the resources trials wait for."""
    from rich.console import Console

    from rlrun.cli.trial_progress import display_order
    from rlrun.cli.trial_table import columns_of, drawn_table, fitting_columns, text_table

    run, now = progress_of(state), time.time()
    left = run.remaining_text(now) if state.drivers else ""
    for line in (_described(state, left), *labels_lines(state.labels)):
        echo(line)
    trials = display_order(run.trials.values())
    columns = columns_of(run, trials, now) if trials else []
    if trials and sys.stdout.isatty():
        console = Console(highlight=False, markup=False)
        console.print(drawn_table(fitting_columns(columns, console.width), [trial.status for trial in trials]))
    elif trials:
        echo(text_table(columns))
    leader = run.leader()
    best = "" if leader is None else str(leader)
    for line in (run.counts_text(), waiting, best, _owned(state, owner), problem, *_notes(state, owner)):
        if line:
            echo(line)


def _watch(directory: Path) -> None:
    """Displays a run in a live view until its driver process ends."""
    from rich.console import Console, RenderableType
    from rich.live import Live

    from rlrun.cli.trial_table import drawn_run
    from rlrun.experiments.runs.run_state import read_run_state

    console = Console(highlight=False, markup=False)

    def drawn(state: RunState) -> RenderableType:
        return drawn_run(progress_of(state), _described(state, ""), str(directory), time.time(), console)

    state = read_run_state(directory)
    with Live(drawn(state), console=console, auto_refresh=False, transient=True) as live:
        while state.drivers:
            time.sleep(REFRESH_S)
            state = read_run_state(directory)
            live.update(drawn(state), refresh=True)
