"""Outcome of runs: errors for failed trials and for trials that have not ended.

A trial is complete if it has ended by its stop criteria or by a scheduler. It has failed if training raised an error.
In any other status it is unfinished, and a run with an unfinished trial has not succeeded.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlrun.engine.messages.errors import DiskFull, Interrupted, RayEnded, RlrunError, TrainingFailed
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.runs.trial_status import is_complete, is_over

NoFaultOfATrial = DiskFull | RayEnded
"""Errors that are not a trial's fault and would fail all trials: trials save if possible, and can be resumed."""


def failure_of(trials: Sequence[TrialResult], errors: Mapping[Path, Exception] | None = None) -> TrainingFailed | None:
    """Error that describes the incomplete trials of runs; None if all trials are complete.

    The message contains the error of each trial, and the command that resumes the trials that have not ended.

    Args:
        trials: All trials of the runs.
        errors: Exceptions that are not in the trials' files, by trial directory.
    """
    unfinished = [trial for trial in trials if not is_complete(trial.status)]
    wrong = [(trial.name, trial.error or (errors or {}).get(trial.directory, "")) for trial in unfinished]
    texts = [f"{name}: {error}" for name, error in wrong if error]
    for run in dict.fromkeys(trial.directory.parent for trial in trials):
        left = [trial for trial in trials if trial.directory.parent == run and not is_over(trial.status)]
        if left:
            named = ", ".join(f"{trial.name} ({trial.status.lower()})" for trial in left)
            texts.append(f"incomplete trials: {named}; continue with: {resume_command(run)}")
    return TrainingFailed("\n\n".join(texts)) if texts else None


def call_failure(
    trials: Sequence[TrialResult],
    left: Sequence[str],
    *,
    signal: str,
    fault: NoFaultOfATrial | None,
    errors: Mapping[Path, Exception],
) -> RlrunError | None:
    """Creates the error that a call of `run` or `resume` raises if some of its runs have not ended; None if all have.

    Failed trials count as ended, and cause no error.

    Args:
        trials: All trials of the runs.
        left: Commands that continue the runs which have not ended.
        signal: Name of the signal with which the user stopped the runs; "" if there was none.
        fault: Another reason why the runs stopped, such as a full disk; or None.
        errors: Exceptions of trials, by trial directory.
    """
    if fault is not None:
        return with_resume_advice(fault, left)
    if not left:
        return None
    commands = _joined(left)
    if signal:
        return Interrupted(f"{signal}: stopped; continue with: {commands}")
    return failure_of(trials, errors) or TrainingFailed(f"the search is not complete; continue with: {commands}")


def with_resume_advice(fault: NoFaultOfATrial, left: Sequence[str]) -> NoFaultOfATrial:
    """Adds the commands that resume the runs to the message of an error that stopped all trials.

    Args:
        fault: The error.
        left: Commands that continue the runs which have not ended.
    """
    then = "after that, continue with" if isinstance(fault, DiskFull) else "continue with"
    return type(fault)(f"{fault}; {then}: {_joined(left)}")


def _joined(commands: Sequence[str]) -> str:
    return " && ".join(dict.fromkeys(commands))


def resume_commands(runs: Sequence[Path]) -> str:
    """Shell commands that resume runs, one after the other.

    Args:
        runs: Directories of the runs.
    """
    return _joined([resume_command(run) for run in runs])


def resume_command(run: Path, *, retry_failed: bool = False) -> str:
    """Shell command that resumes a run.

    Args:
        run: Directory of the run.
        retry_failed: Whether the command retries failed trials.
    """
    return f"rlrun resume {shlex.quote(shown_path(run))}{' --retry-failed' if retry_failed else ''}"


def shown_path(path: Path) -> str:
    """Path as the user would type it: relative if inside the current directory, else absolute."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
