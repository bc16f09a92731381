"""How runs have ended: the one place that says what has failed and what is left (`trial_status` says it of a trial).

Complete is a trial that has come to its end, by its stop criteria or because a scheduler ended it. Failed is one that
training has ended. Whatever else it is, a trial is left over, and a run with such a trial is no success.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlrun.errors import DiskFull, Interrupted, RayEnded, RlrunError, TrainingFailed
from rlrun.runs.trial_result import TrialResult
from rlrun.runs.trial_status import is_complete, is_over

NoFaultOfATrial = DiskFull | RayEnded
"""What ends trials that would all fail for the same reason: they save if they can, and go on in a later call."""


def failure_of(trials: Sequence[TrialResult], errors: Mapping[Path, Exception] | None = None) -> TrainingFailed | None:
    """Returns what runs fail with whose trials stand like this, None if all are complete.

    Its message has what went wrong with each trial, and how to go on with those that are left.

    Args:
        trials: All trials of the runs.
        errors: What trials have raised whose files do not say so, by their directories.
    """
    unfinished = [trial for trial in trials if not is_complete(trial.status)]
    wrong = [(trial.name, trial.error or (errors or {}).get(trial.directory, "")) for trial in unfinished]
    texts = [f"{name}: {error}" for name, error in wrong if error]
    for run in dict.fromkeys(trial.directory.parent for trial in trials):
        left = [trial for trial in trials if trial.directory.parent == run and not is_over(trial.status)]
        if left:
            named = ", ".join(f"{trial.name} ({trial.status.lower()})" for trial in left)
            texts.append(f"not complete: {named}; go on with: {resume_command(run)}")
    return TrainingFailed("\n\n".join(texts)) if texts else None


def call_failure(
    trials: Sequence[TrialResult],
    left: Sequence[Path],
    *,
    signal: str,
    fault: NoFaultOfATrial | None,
    errors: Mapping[Path, Exception],
) -> RlrunError | None:
    """Returns what a call that ran or resumed runs must raise because something is left to do, None if nothing is.

    Trials that have failed are over: they alone are no reason.

    Args:
        trials: All trials of the runs.
        left: The directories of the runs that are not over.
        signal: Name of the signal by which the user stopped the runs, "" if there was none.
        fault: What has stopped them instead, or None.
        errors: What trials have raised, by their directories.
    """
    if fault is not None:
        return with_way_on(fault, left)
    if not left:
        return None
    commands = _resume_commands(left)
    if signal:
        return Interrupted(f"{signal}: stopped; go on with: {commands}")
    return failure_of(trials, errors) or TrainingFailed(f"the search is not complete; go on with: {commands}")


def with_way_on(fault: NoFaultOfATrial, left: Sequence[Path]) -> NoFaultOfATrial:
    """Returns what has stopped all trials with how to go on.

    Args:
        fault: What has stopped them.
        left: The directories of the runs that are not over.
    """
    then = "after that go on with" if isinstance(fault, DiskFull) else "go on with"
    return type(fault)(f"{fault}; {then}: {_resume_commands(left)}")


def _resume_commands(runs: Sequence[Path]) -> str:
    return " && ".join(map(resume_command, runs))


def resume_command(run: Path, *, retry_failed: bool = False) -> str:
    """Returns what to type to go on with a run.

    Args:
        run: Its directory.
        retry_failed: Whether trials that failed are to be tried again.
    """
    return f"rlrun resume {shlex.quote(shown_path(run))}{' --retry-failed' if retry_failed else ''}"


def shown_path(path: Path) -> str:
    """Returns a path as the user would type it: relative where it lies below the current directory."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
