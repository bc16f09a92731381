"""Games of two saved policies, or of one against a script: what `rlrun evaluate --against` says."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlrun.cli.tables import counted
from rlrun.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from rlrun.league.ratings import Outcomes


@dataclass(frozen=True)
class Versus:
    """How games of one against another ended.

    Attributes:
        checkpoint: Whose policy played.
        against: Against whom: a checkpoint or a scripted opponent.
        sides: How the games ended for the first, by the side that it played.
    """

    checkpoint: str
    against: str
    sides: Mapping[str, Outcomes]

    def to_dict(self) -> dict[str, Any]:
        """Returns all of it as plain data."""
        return {
            "checkpoint": self.checkpoint,
            "against": self.against,
            **_to_dict(_total(self.sides)),
            "sides": {side: _to_dict(own) for side, own in self.sides.items()},
        }

    def text(self) -> str:
        """Returns it as a few lines of text."""
        parts = [counted(_total(self.sides).games, "game"), *_lines(_total(self.sides))]
        for side, own in self.sides.items():
            parts += [f"as the {side} side", *_lines(own)]
        return "\n".join([self.checkpoint, f"against {self.against}", *parts])


def _total(sides: Mapping[str, Outcomes]) -> Outcomes:
    from rlrun.league.ratings import total

    return total(sides.values())


def _parts(own: Outcomes) -> dict[str, tuple[int, float, float]]:
    """Returns of each way to end how many games did, and the 95 % interval of their part."""
    from rlrun.league.ratings import wilson_interval

    numbers = {"wins": own.wins, "draws": own.draws, "losses": own.losses}
    return {ending: (number, *wilson_interval(number / own.games, own.games)) for ending, number in numbers.items()}


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
        f"  {ending:<8}{number:>6,}  {number / own.games:.3f}  (95 % interval {low:.3f} to {high:.3f})"
        for ending, (number, low, high) in _parts(own).items()
    ]


def play(
    checkpoint: Path,
    against: str,
    episodes: int,
    seed: int,
    runs_dir: Path,
    *,
    simulations: int | None,
    explore: bool,
    best: bool,
    trust: bool,
) -> Versus:
    """Plays games in the first one's world.

    Args:
        checkpoint: Whose policy plays.
        against: A checkpoint or a run, or a scripted opponent. A run that has an opponent's name is written as a path.
        episodes: How many games, rounded up to an even number.
        seed: Seed of the games.
        runs_dir: The folder that holds the runs.
        simulations: Of the first one's search before each move; None for as many as its settings say.
        explore: Whether policies draw their actions.
        best: Whether a run means its best checkpoint and not its newest.
        trust: Whether to import what checkpoints name.
    """
    from rlrun.cli.targets import checkpoint_named, existing, restored
    from rlrun.league.scripted_opponent import BUILT_IN, names_script

    with ExitStack() as stack:
        training = stack.enter_context(restored(checkpoint, runs_dir, trust=trust))
        if simulations is not None:
            training.acting.search(simulations)
        if names_script(against) and not Path(against).exists():
            return Versus(str(checkpoint), against, training.games.play(against, episodes, seed=seed, explore=explore))
        if existing(against, runs_dir) is None and (near := did_you_mean(against, BUILT_IN)):
            raise UsageError(f"{against} is neither a run nor an opponent{near}")
        opponent = checkpoint_named(against, runs_dir, best=best)
        other = stack.enter_context(restored(opponent, runs_dir, trust=trust))
        played = training.games.play(other.games, episodes, seed=seed, explore=explore)
        return Versus(str(checkpoint), str(opponent), played)
