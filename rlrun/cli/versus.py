"""``rlrun evaluate --against``: games of a saved policy against another policy or a scripted player."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlrun.cli.tables import counted
from rlrun.cli.targets import checkpoint_named, existing
from rlrun.engine.functional.intervals import exact_interval
from rlrun.engine.league.ratings import Outcomes, total
from rlrun.engine.league.scripted_opponent import BUILT_IN, names_script
from rlrun.engine.messages.errors import UsageError, did_you_mean


@dataclass(frozen=True)
class Versus:
    """Results of a policy's games against an opponent: wins, draws and losses.

    Attributes:
        checkpoint: Checkpoint of the policy.
        against: Name of the opponent: a checkpoint or a script.
        sides: Wins, draws and losses of the policy, by the side it played.
    """

    checkpoint: str
    against: str
    sides: Mapping[str, Outcomes]

    def to_dict(self) -> dict[str, Any]:
        """Serializes the match results to plain data."""
        return {
            "checkpoint": self.checkpoint,
            "against": self.against,
            **_to_dict(total(self.sides.values())),
            "sides": {side: _to_dict(own) for side, own in self.sides.items()},
        }

    def text(self) -> str:
        """Formats the match results as lines of text."""
        both = total(self.sides.values())
        parts = [counted(both.games, "game"), *_lines(both)]
        for side, own in self.sides.items():
            parts += [f"as the {side} side", *_lines(own)]
        return "\n".join([self.checkpoint, f"against {self.against}", *parts])


def _parts(own: Outcomes) -> dict[str, tuple[int, float, float]]:
    """Number of games and exact 95% confidence interval of the rate, for each outcome (win, draw, loss)."""
    numbers = {"wins": own.wins, "draws": own.draws, "losses": own.losses}
    return {ending: (number, *exact_interval(number, own.games)) for ending, number in numbers.items()}


def _to_dict(own: Outcomes) -> dict[str, Any]:
    return {
        "games": own.games,
        **{
            ending: {"number": number, "part": number / own.games, "ci95": [low, high]}
            for ending, (number, low, high) in _parts(own).items()
        },
    }


def _lines(own: Outcomes) -> list[str]:
    return [
        f"  {ending:<8}{number:>6,}  {number / own.games:.3f}  (95% interval {low:.3f} to {high:.3f})"
        for ending, (number, low, high) in _parts(own).items()
    ]


def opponent_named(against: str, runs_dir: Path, *, best: bool) -> str | Path:
    """Resolves the argument of ``--against`` to the name of a scripted player, or to the directory of a checkpoint.

    Args:
        against: A checkpoint, a run or a scripted opponent. A run that has the same name as a script must be given as a
            path.
        runs_dir: The folder that holds the runs.
        best: Whether a run resolves to its best checkpoint instead of its newest.
    """
    if names_script(against) and not Path(against).exists():
        return against
    if existing(against, runs_dir) is None and (near := did_you_mean(against, BUILT_IN)):
        raise UsageError(f"{against} is neither a run nor a known opponent{near}")
    return checkpoint_named(against, runs_dir, best=best)
