"""Rewinding of a run's trials to earlier checkpoints, from which they resume.

Later results are set aside, not deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlrun.engine.checkpoint.durable import write_file
from rlrun.engine.checkpoint.format import verify_checkpoint
from rlrun.engine.checkpoint.manifest import read_manifest
from rlrun.engine.checkpoint.store import RESULT_KEY, CheckpointStore
from rlrun.engine.messages.errors import CheckpointError, UsageError
from rlrun.experiments.launch.chain import following
from rlrun.experiments.runs.events import TrialRewound, Watcher
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.trial.results import RESULT_FILE, read_last_row
from rlrun.experiments.trial.trial_directory import TRIAL_FILE, TrialDirectory

SET_ASIDE = "set_aside"
"""Name of the folder in a trial's directory for results removed by rewinding, in subfolders 1, 2, and so on."""


@dataclass(frozen=True)
class _Target:
    """Checkpoint to which a trial is rewound, and the later ones.

    Attributes:
        trial: Name of the trial.
        checkpoint: The checkpoint.
        later: Later checkpoints, oldest first.
        steps: The checkpoint's steps, such as "2,048 env steps".
    """

    trial: str
    checkpoint: Path
    later: tuple[Path, ...]
    steps: str


def rewind(run: RunDirectory, step: float, watch: Watcher) -> None:
    """Rewinds each trial that is beyond a given step to its newest complete checkpoint at or before that step.

    A kill during the rewind is harmless: copies are written before anything is moved, and the newest checkpoints are
    moved first.

    Args:
        run: The run.
        step: Number of env steps, or of SGD steps in offline training.
        watch: Called with an event for each trial that is rewound.

    Raises:
        UsageError: No trial is beyond the step, or a trial has no complete checkpoint at or before it, or a scheduler,
            a searcher, a data set or a later stage has used the results to be undone. In these cases, no file has
            changed.
    """
    _refuse_dependents(run)
    with run.locked(), ExitStack() as claimed:
        directories = {name: run.trial_directory(name) for name in run.table.trials}
        for directory in directories.values():
            directory.claim()
            claimed.callback(directory.release)
        for target in _targets(directories, step):
            aside = _set_aside(directories[target.trial], target)
            watch(TrialRewound(target.trial, target.checkpoint, target.steps, aside))


def _refuse_dependents(run: RunDirectory) -> None:
    """Raises an error if a scheduler, a searcher, a data set or a later stage has used results to be undone."""
    spec = run.spec()[0]
    for key in ("scheduler", "searcher"):
        if spec.get(key):
            raise UsageError(
                f"{run.path}: cannot go back, because its {key} has used results that --from would undo{_instead()}"
            )
    if spec.get("output"):
        raise UsageError(
            f"{run.path}: cannot go back, because its data set {spec['output']} contains steps that --from would undo"
            f"{_instead()}"
        )
    for later in following(run):
        if any(later.record(name).from_checkpoint for name in later.table.trials):
            raise UsageError(
                f"{run.path}: cannot go back, because {later.path} has started from its final weights{_instead()}"
            )


def _instead() -> str:
    return "; start a new run from a checkpoint instead: `rlrun train SPEC --from CHECKPOINT`"


def _targets(directories: Mapping[str, TrialDirectory], step: float) -> list[_Target]:
    """Targets of all trials that have gone beyond a step.

    Raises:
        UsageError: No trial is beyond the step, or such a trial has no complete checkpoint at or before it.
    """
    targets, lacking, furthest = [], [], "there are no results yet"
    for name, directory in directories.items():
        last = read_last_row(directory.path)
        unit = _unit(last)
        if last is None or last[unit] <= step:
            furthest = furthest if last is None else f"{name} has {_in_words(last[unit], unit)}"
            continue
        there = _steps_of_checkpoints(directory, unit)
        whole = [path for path, steps in there.items() if steps <= step and _is_whole(path)]
        if whole:
            at = list(there).index(whole[-1])
            targets.append(_Target(name, whole[-1], tuple(there)[at + 1 :], _in_words(there[whole[-1]], unit)))
        else:
            kept = f"those at {', '.join(f'{steps:,.0f}' for steps in there.values())}" if there else "none"
            lacking.append(f"{name} has no complete checkpoint at or before {_in_words(step, unit)}, only {kept}")
    if lacking:
        raise UsageError("\n".join(lacking))
    if not targets:
        raise UsageError(f"no trial has gone beyond {step:,.0f} steps: {furthest}; leave out --from")
    return targets


def _unit(row: Mapping[str, Any] | None) -> str:
    return "env_steps" if row is None or row.get("env_steps") else "sgd_steps"


def _in_words(steps: float, unit: str) -> str:
    return f"{steps:,.0f} {'env' if unit == 'env_steps' else 'SGD'} steps"


def _steps_of_checkpoints(directory: TrialDirectory, unit: str) -> dict[Path, float]:
    """Steps of a trial's checkpoints, oldest first; infinite where unknown."""
    found = {}
    for path in CheckpointStore(directory.checkpoints).paths():
        steps = float("inf")
        with suppress(CheckpointError):
            result = read_manifest(path).about.get(RESULT_KEY)
            if isinstance(result, dict) and isinstance(result.get(unit), int | float):
                steps = result[unit]
        found[path] = steps
    return found


def _is_whole(checkpoint: Path) -> bool:
    try:
        verify_checkpoint(checkpoint)
    except CheckpointError:
        return False
    return True


def _set_aside(directory: TrialDirectory, target: _Target) -> Path:
    """Keeps a trial's results, record and later checkpoints in a new folder, and marks the trial INTERRUPTED."""
    folder = directory.path / SET_ASIDE
    number = 1 + sum(path.is_dir() for path in folder.glob("*"))
    aside = folder / str(number)
    (aside / directory.checkpoints.name).mkdir(parents=True)
    for name in (RESULT_FILE, TRIAL_FILE):
        write_file(aside / name, (directory.path / name).read_bytes())
    record = directory.read_record()
    if record is not None:
        interrupted = replace(record, status="INTERRUPTED", stop_reason="", pid=None, host="")
        directory.write_record(replace(interrupted, error="", exit_code=0))
    for path in reversed(target.later):
        path.rename(aside / directory.checkpoints.name / path.name)
    return aside
