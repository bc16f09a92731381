"""Status of a trial, derived from its record and from which processes are running."""

from __future__ import annotations

import platform
from typing import Literal

from rlrun.experiments.trial.trial_directory import TrialRecord, TrialStatus

Status = Literal[TrialStatus, "KILLED", "DAMAGED"]
"""Type of a trial's status: a status from trial.json, KILLED (started, but no process runs it) and DAMAGED (invalid
trial.json)."""


def status_of(record: TrialRecord, *, is_claimed: bool, has_driver: bool) -> Status:
    """Derives the status of a trial from its record and the processes that are running.

    In a resumed run, a trial that is still waiting for resources counts as PENDING, although its record holds the
    status from before the resume.

    Args:
        record: Content of trial.json.
        is_claimed: Whether a process on this machine is executing the trial.
        has_driver: Whether a process is executing the run.
    """
    if record.status == "INTERRUPTED" and has_driver:
        return "PENDING"
    if record.status == "PAUSED" and not has_driver:
        return "KILLED"
    if record.status != "RUNNING" or is_claimed:
        return record.status
    if not has_driver:
        return "KILLED"
    return "PENDING" if record.host in ("", platform.node()) else "RUNNING"


def is_complete(status: Status) -> bool:
    """Whether a trial was ended by a stop criterion or a scheduler."""
    return status == "TERMINATED"


def is_over(status: Status) -> bool:
    """Whether a trial is complete or failed, so that `rlrun resume` without options skips it."""
    return is_complete(status) or status == "ERROR"
