"""The stops that a scheduler has decided, written down before anyone acts on them.

``decisions.jsonl`` in the run's directory: a trial that is named there is over, whatever its own trial.json says after
a kill.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rlrun.checkpoint.durable import append_line
from rlrun.checkpoint.plain_json import load_json

DECISIONS_FILE = "decisions.jsonl"


@dataclass(frozen=True)
class StopDecision:
    """A trial that a scheduler has ended.

    Attributes:
        trial: Name of the trial.
        time: How far it had come, in the scheduler's time attribute.
        score: The scheduler's metric then, as it was reported; None if there was none.
        reason: Why, in words.
    """

    trial: str
    time: float
    score: float | None
    reason: str


def append_stop(run: Path, decision: StopDecision) -> None:
    """Adds a decision, which lasts once this returns.

    Raises:
        OutOfResources: If the disk is full.
    """
    append_line(Path(run) / DECISIONS_FILE, json.dumps(asdict(decision), allow_nan=False).encode())


def read_stops(run: Path) -> dict[str, StopDecision]:
    """Returns the decisions by trial; a line that a kill has torn is left out."""
    try:
        lines = (Path(run) / DECISIONS_FILE).read_bytes().splitlines()
    except FileNotFoundError:
        return {}
    found = {}
    for line in lines:
        try:
            decision = StopDecision(**load_json(line))
        except (ValueError, TypeError):
            continue
        found[decision.trial] = decision
    return found
