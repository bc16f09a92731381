"""How a trial stands: the one place that judges it, by its record and by the processes that run."""

from __future__ import annotations

import platform
from typing import Literal

from rlrun.trial.trial_directory import TrialRecord, TrialStatus

Status = Literal[TrialStatus, "KILLED", "DAMAGED"]
"""How a trial stands. Beside what trial.json says: KILLED, it has begun and not ended, and no process runs it; DAMAGED,
trial.json is missing or cannot be understood."""


def status_of(record: TrialRecord, *, is_claimed: bool, has_driver: bool) -> Status:
    """Returns how a trial stands by its record and by what is known of the processes.

    A driver that goes on with a run leaves the records of trials that wait for a place as it found them.

    Args:
        record: What trial.json says.
        is_claimed: Whether a process on this machine runs the trial.
        has_driver: Whether a process runs the run.
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
    """Whether a trial has come to its end."""
    return status == "TERMINATED"


def is_over(status: Status) -> bool:
    """Whether a plain `rlrun resume` leaves a trial as it is: it is complete, or has failed."""
    return is_complete(status) or status == "ERROR"
