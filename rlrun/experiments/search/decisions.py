"""Write-ahead log of a scheduler's early-stopping decisions.

The log is ``decisions.jsonl`` in the run's directory. A trial in the log has ended, even if trial.json shows another
status after a kill.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from rlrun.engine.checkpoint.durable import append_line
from rlrun.engine.checkpoint.plain_json import read_lines

DECISIONS_FILE = "decisions.jsonl"


@dataclass(frozen=True)
class StopDecision:
    """Decision of a scheduler to stop one trial early.

    Attributes:
        trial: Name of the trial.
        time: Progress of the trial when it was stopped, in units of the scheduler's `time_attr`.
        score: Value of the scheduler's metric at that time, as reported; None if there was no value.
        reason: Reason for the decision, as a message for users.
    """

    trial: str
    time: float
    score: float | None
    reason: str


_DECISION = TypeAdapter(StopDecision)


def append_stop(run: Path, decision: StopDecision) -> None:
    """Appends an early-stopping decision to the log, synced to disk.

    Raises:
        OutOfResources: The disk is full.
    """
    append_line(Path(run) / DECISIONS_FILE, json.dumps(asdict(decision), allow_nan=False).encode())


def read_stops(run: Path) -> dict[str, StopDecision]:
    """Loads a scheduler's early-stopping decisions by trial; a line truncated by a kill is skipped."""
    return {decision.trial: decision for decision in read_lines(Path(run) / DECISIONS_FILE, _DECISION)}
