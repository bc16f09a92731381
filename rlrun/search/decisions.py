"""A scheduler's decisions to stop trials, recorded before they are carried out.

They are in ``decisions.jsonl`` in the run's directory: a trial there is over, even if its own trial.json has
another status after a kill.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from rlrun.checkpoint.durable import append_line
from rlrun.checkpoint.plain_json import read_lines

DECISIONS_FILE = "decisions.jsonl"


@dataclass(frozen=True)
class StopDecision:
    """A scheduler's decision to stop a trial.

    Attributes:
        trial: Name of the trial.
        time: Its progress, in the scheduler's time attribute.
        score: The scheduler's metric at that time, as reported; None if there was none.
        reason: The reason for users.
    """

    trial: str
    time: float
    score: float | None
    reason: str


_DECISION = TypeAdapter(StopDecision)


def append_stop(run: Path, decision: StopDecision) -> None:
    """Appends a decision durably.

    Raises:
        OutOfResources: The disk is full.
    """
    append_line(Path(run) / DECISIONS_FILE, json.dumps(asdict(decision), allow_nan=False).encode())


def read_stops(run: Path) -> dict[str, StopDecision]:
    """Reads the decisions by trial; a line that a kill has truncated is skipped."""
    return {decision.trial: decision for decision in read_lines(Path(run) / DECISIONS_FILE, _DECISION)}
