"""``rlrun runs``: the runs in the runs folder, with status and results; ``rlrun label``: a run's tags and note."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from rlrun.cli.json_document import print_json, print_result, wants_json
from rlrun.cli.options import complete_runs, complete_tags, json_option, note_option, runs_dir_option, tag_option
from rlrun.cli.tables import counted, duration, echo, listed, metric_words, plain
from rlrun.report.plain_json import fields_of

if TYPE_CHECKING:
    from rlrun.experiments.runs.labels import Labels
    from rlrun.experiments.runs.run_state import RunState


SORT_KEYS = {"age": "age_s", "name": "name", "best": "best", "steps": "env_steps"}
"""Sort orders of the list of runs -> key in a run's data. All orders but the name are descending."""

MOST_STRANGE = 5
"""Maximum number of listed runs that belong to other users."""


@click.command()
@click.option("--sort", type=click.Choice(list(SORT_KEYS)), default="age", show_default=True, help="Sort order.")
@click.option(
    "--status", metavar="STATUS", help="List only runs with a trial in this status, such as running or error."
)
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_tags,
    help="List only runs with this tag; if given several times, with all the tags.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="List only the first N runs.")
@click.option(
    "--delete",
    metavar="NAME",
    shell_complete=complete_runs,
    help="Delete this run and all its trials, after confirmation.",
)
@click.option("--yes", is_flag=True, help="With --delete: do not ask for confirmation.")
@runs_dir_option
@json_option("the runs")
def runs(
    sort: str,
    status: str | None,
    tags: tuple[str, ...],
    limit: int | None,
    delete: str | None,
    yes: bool,
    runs_dir: Path,
) -> None:
    """List the runs: status, trials, best trial, env steps, age.

    The column "metric" names the metric that decides which trial is best: the
    evaluation return if the run evaluates, else the training return.
    """
    if delete is not None:
        deletion = _delete(delete, runs_dir, asks=not yes)
        if wants_json():
            print_json(deletion)
        return
    wanted = None if status is None else _status_named(status)
    looked_at = _listed_runs(runs_dir, tags, sort, limit if wanted is None else None)
    found = [run for run in looked_at if wanted is None or wanted in {trial["status"] for trial in run["trials"]}]
    found = sorted(found, key=lambda run: _place(run, sort))[:limit]
    if wants_json():
        print_json({"runs": found})
    elif found:
        echo(_table(found))
        _echo_problems(found, runs_dir)
    elif looked_at:
        which = "The only run" if len(looked_at) == 1 else f"None of the {len(looked_at):,} runs"
        has = "has no trial" if len(looked_at) == 1 else "has a trial"
        echo(f"{which} in folder '{runs_dir}' {has} with status '{str(status).lower()}'.")
    elif tags:
        echo(f"No run in {runs_dir} has {'the tag' if len(tags) == 1 else 'all the tags'} {', '.join(tags)}.")
    else:
        echo(f"No runs in {runs_dir}. Start one: rlrun train --algorithm ppo --env CartPole-v1")


def _listed_runs(runs_dir: Path, tags: tuple[str, ...], sort: str, limit: int | None) -> list[dict[str, Any]]:
    """Data of the runs that have all tags; only of the first `limit` runs if sorting does not need their files."""
    from rlrun.cli.targets import run_names
    from rlrun.experiments.runs.run_state import last_change, read_run_state

    names = [name for name in run_names(runs_dir) if not tags or _has_tags(runs_dir / name, tags)]
    if limit is not None and sort in ("age", "name"):
        names = sorted(names, key=lambda name: -last_change(runs_dir / name) if sort == "age" else name)[:limit]
    return [_run_data(read_run_state(runs_dir / name), runs_dir / name) for name in names]


def _echo_problems(found: list[dict[str, Any]], runs_dir: Path) -> None:
    """Prints on stderr the problems of listed runs, and which runs belong to other users."""
    from rlrun.cli.targets import is_own

    for run in found:
        for problem in filter(None, (run["problem"], *(trial["problem"] for trial in run["trials"]))):
            echo(f"{run['name']}: {problem}", err=True)
    strange = [run["name"] for run in found if not is_own(runs_dir / run["name"], runs_dir)]
    if strange:
        named = f"{', '.join(strange[:MOST_STRANGE])}{', ...' if len(strange) > MOST_STRANGE else ''}"
        are = "is" if len(strange) == 1 else "are"
        echo(f"{counted(len(strange), 'run')} {are} not trusted: {named}", err=True)


def _table(found: list[dict[str, Any]]) -> str:
    """Table of runs; columns in which no run has a value may be left out."""
    columns: dict[str, Callable[[dict[str, Any]], Any]] = {
        "run": lambda run: run["name"],
        "status": _status_text,
        "trials": lambda run: len(run["trials"]),
        "best trial": lambda run: run["best"],
        "metric": lambda run: None if run["best"] is None else metric_words(run["judged_by"]),
        "env steps": lambda run: run["env_steps"],
        "SGD steps": lambda run: None if run["env_steps"] else run["sgd_steps"] or None,
        "last change": lambda run: f"{duration(run['age_s'])} ago",
        "tags": lambda run: ", ".join(run["tags"]) or None,
        "note": lambda run: run["note"] or None,
    }
    for heading in ("SGD steps", "tags", "note"):  # a column that is empty for all runs is left out
        if all(columns[heading](run) is None for run in found):
            del columns[heading]
    return listed(found, columns, ["note", "trials", "tags"])


def _has_tags(run: Path, tags: tuple[str, ...]) -> bool:
    """Whether a run has all tags; False if its labels cannot be read, which `rlrun status` reports."""
    from rlrun.engine.messages.errors import RunDamaged
    from rlrun.experiments.runs.labels import read_labels

    try:
        return set(tags) <= set(read_labels(run).tags)
    except RunDamaged:
        return False


def _place(run: dict[str, Any], sort: str) -> tuple[bool, Any]:
    """Sort key of a run; runs without a value are last."""
    value = run[SORT_KEYS[sort]]
    return value is None, value if value is None or sort in ("age", "name") else -value


def _status_named(text: str) -> str:
    """Parses a status from the command line; the result is in capitals.

    Raises:
        UsageError: If there is no such status.
    """
    from rlrun.engine.messages.errors import UsageError, did_you_mean
    from rlrun.experiments.runs.trial_status import Status

    known = [status.lower() for status in get_args(Status)]
    if text.lower() not in known:
        near = did_you_mean(text.lower(), known)
        raise UsageError(f"--status {text}: unknown status; must be one of: {', '.join(known)}{near}")
    return text.upper()


def _delete(name: str, runs_dir: Path, *, asks: bool) -> dict[str, Any]:
    """Deletes a run's directory; a copy in remote storage is kept.

    Returns:
        The run and whether it was deleted, as JSON-able data.

    Raises:
        UsageError: If there is no such run, a process is running it, or the prompt gets no answer.
    """
    from rlrun.cli.targets import run_named
    from rlrun.engine.messages.errors import UsageError
    from rlrun.experiments.runs.run_lock import drivers_of, who_runs

    directory = run_named(name, runs_dir)
    drivers = drivers_of(directory)
    if drivers:
        raise UsageError(f"{who_runs(drivers, str(directory))}; stop it first")
    is_wanted = not asks or _agrees(f"Delete {directory} and its checkpoints?")
    if is_wanted:
        shutil.rmtree(directory)
    echo(f"{'Deleted' if is_wanted else 'Kept'} {directory}.", err=True)
    return {"name": directory.name, "directory": str(directory), "deleted": is_wanted}


def _agrees(question: str) -> bool:
    """Prompts the user for a confirmation (yes or no).

    Raises:
        UsageError: If stdin is at its end.
    """
    from rlrun.engine.messages.errors import UsageError

    try:
        return click.confirm(plain(question), err=True)
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):  # Ctrl-C
            raise
        raise UsageError("cannot ask for confirmation; pass --yes to delete without asking") from None


def _run_data(run: RunState, directory: Path) -> dict[str, Any]:
    trials = [
        {
            **fields_of(trial, "name", "status", "env_steps", "best_return"),
            "best": trial.best_score,
            "problem": trial.error if trial.is_damaged else "",
        }
        for trial in run.trials
    ]
    returns = [trial.best_return for trial in run.trials if trial.best_return is not None]
    scored = [trial for trial in run.trials if trial.best_score is not None]
    return {
        "name": directory.name,
        "directory": str(directory),
        **asdict(run.labels),
        "best_return": max(returns, default=None),
        "best": max((trial.best_score for trial in scored if trial.best_score is not None), default=None),
        "judged_by": next((trial.judged_by for trial in [*scored, *run.trials]), None),  # the same for all trials
        "env_steps": sum(trial.env_steps for trial in run.trials),
        "sgd_steps": sum(trial.last_result.get("sgd_steps") or 0 for trial in run.trials),
        "age_s": max(0.0, time.time() - run.changed),
        "trials": trials,
        "problem": run.problem,
    }


def _status_text(run: dict[str, Any]) -> str:
    """Summary of the trials' statuses: "terminated", or "3 terminated, 1 running" if mixed."""
    counts = Counter(str(trial["status"]).lower() for trial in run["trials"])
    text = ", ".join(f"{count} {status}" for status, count in counts.items()) if len(counts) > 1 else "".join(counts)
    return ", ".join(filter(None, ["damaged" if run["problem"] else "", text])) or "empty"


@click.command()
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@tag_option
@click.option(
    "--untag",
    "removed",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_tags,
    help="Tag to remove; may be given several times.",
)
@note_option
@runs_dir_option
@json_option("the labels")
def label(run: str, tags: tuple[str, ...], removed: tuple[str, ...], note: str | None, runs_dir: Path) -> None:
    """Show or change the tags and the note of a run.

    This also works while the run is training. An empty note removes the existing one.

    \b
    rlrun label cartpole-ppo --tag good --untag draft --note "wider net"
    rlrun runs --tag good
    """  # noqa: D301 (\b keeps click from rewrapping the paragraph)
    from rlrun.cli.targets import run_named
    from rlrun.experiments.runs.labels import read_labels, write_labels

    directory = run_named(run, runs_dir)
    labels = read_labels(directory)
    if tags or removed or note is not None:
        labels = labels.changed(tags, removed, note)
        write_labels(directory, labels)
    data = {"name": directory.resolve().name, "directory": str(directory), **asdict(labels)}
    print_result(data, "\n".join(labels_lines(labels)) or "no labels")


def labels_lines(labels: Labels) -> list[str]:
    """Lines that show a run's labels in `rlrun label` and `rlrun status`."""
    tags = [f"tags: {', '.join(labels.tags)}"] if labels.tags else []
    return [*tags, *([f"note: {labels.note}"] if labels.note else [])]
