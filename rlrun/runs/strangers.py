"""Whether a run is the user's own, and what a run of somebody else asks for before it goes on.

One's own is a run in one's own folder of runs. Whatever it names may be imported, and it writes where it says. Of any
other run only what is known to be harmless is followed, unless the user allows the rest.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlrun.checkpoint.own_digest import read_unaltered
from rlrun.checkpoint.plain_yaml import load_plain_yaml
from rlrun.errors import RunDamaged, SpecError
from rlrun.runs.run_directory import SPEC_FILE, RunDirectory
from rlrun.training.demands import refuse_demands, spec_demands
from rlrun.trial.trial_directory import TrialDirectory

_SEARCH = ("searcher", "scheduler")
"""Sections by which trials come about that are in no file yet."""


def why_not_own(run: Path, runs_dir: Path) -> str:
    """Returns why a run is not taken as the user's own, "" if it is.

    Args:
        run: The run's directory.
        runs_dir: The user's folder of runs.
    """
    run, runs_dir = run.resolve(), runs_dir.resolve()
    if run.parent != runs_dir:
        return f"it is not in your folder of runs, {runs_dir}"
    for folder in (run, runs_dir):
        owner = folder.stat().st_uid
        if owner not in (os.geteuid(), 0):
            return f"{folder} belongs to {_user(owner)}"
    return ""


def refuse_demands_of_run(run: RunDirectory) -> None:
    """Refuses to go on with a stranger's run that asks for what only the user can allow; imports nothing.

    Args:
        run: The run, of which nothing but run.json has been looked at.

    Raises:
        CheckpointRefused: With everything that it asks for.
        RunDamaged: If its spec cannot be understood.
    """
    demands: list[str] = []
    try:
        for name in run.table.trials:
            directory = TrialDirectory(run.path / name)
            demands += spec_demands(directory.read_spec())
            for file in sorted(directory.checkpoints.glob(f"*/{SPEC_FILE}")):  # a resume makes what these name, too
                demands += spec_demands(load_plain_yaml(read_unaltered(file).decode()))
            record = directory.read_record()
            if record is not None and record.from_checkpoint is not None:
                demands.append(f"from_checkpoint {record.from_checkpoint!s:.80} is a file to read")
        for spec in _experiments(run.path / SPEC_FILE):
            demands += spec_demands(spec)
            demands += [f"{part} makes trials that nobody can look at beforehand" for part in _SEARCH if spec.get(part)]
    except SpecError as error:
        demands.append(f"its spec cannot be looked at beforehand ({error})")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunDamaged(f"{run.path}: its spec cannot be understood: {error}") from error
    if run.table.copy is not None:
        demands.append(f"its copy {run.table.copy!s:.80} is a place to write to")
    if run.table.from_checkpoint is not None:
        demands.append(f"from_checkpoint {run.table.from_checkpoint!s:.80} is a file to read")
    demands += [f"{link.relative_to(run.path)} is a link to another place" for link in _links(run.path)]
    refuse_demands(list(dict.fromkeys(demands)), f"{run.path}: the run")


def _experiments(file: Path) -> list[Mapping[str, Any]]:
    """Returns the experiments of a resolved spec as plain data."""
    try:
        data = load_plain_yaml(read_unaltered(file).decode())
    except OSError as error:
        raise RunDamaged(f"{file}: cannot be read: {error.strerror}") from error
    return list(data.values())


def _links(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_symlink()]


def _user(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"
