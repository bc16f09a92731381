"""Rates of wins, draws and losses in evaluations against an opponent, overall and for each side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlrun.experiments.runs.trial_result import TrialResult
    from rlrun.report.configurations import Group

GAMES = "evaluation/against/"
"""Prefix of the metrics of games."""

OUTCOMES = {"won": "win_rate", "drawn": "draw_rate", "lost": "loss_rate"}
"""Last parts of the metrics' names, by what they count."""

SIDES = {"both": "", "first": "first/", "second": "second/"}
"""Parts of the metrics' names by the side that a policy plays."""


@dataclass(frozen=True)
class GameRates:
    """Rates of a configuration's wins, draws and losses in its last evaluation, as means over its trials.

    Attributes:
        label: Name of the configuration.
        side: Side that the configuration's policy plays, one of `SIDES`.
        won: Fraction of the games that the configuration's policy won.
        drawn: Fraction of the games that were drawn.
        lost: Fraction of the games that the policy lost.
    """

    label: str
    side: str
    won: float
    drawn: float
    lost: float


def is_game_metric(name: str) -> bool:
    """Whether a metric reports an outcome of games, such as ``evaluation/against/win_rate``."""
    return name.startswith(GAMES)


def are_games(trials: Sequence[TrialResult]) -> bool:
    """Whether all trials report outcomes of games; the mean return over both sides of a game is then meaningless."""
    return bool(trials) and all(any(map(is_game_metric, trial.last_result)) for trial in trials)


def rates_of(groups: Sequence[Group]) -> list[GameRates]:
    """Rates of wins, draws and losses for each group and side; [] without games against an opponent.

    Args:
        groups: The groups, whose trials have the columns of the game metrics.
    """
    found = []
    for group in groups:
        trials = [trial for sample in group.samples for trial in sample]
        for side, part in SIDES.items():
            rates = [[trial.final(f"{GAMES}{part}{rate}") for rate in OUTCOMES.values()] for trial in trials]
            played = [[rate for rate in own if rate is not None] for own in rates]
            if whole := [own for own in played if len(own) == len(OUTCOMES)]:
                found.append(GameRates(group.label, side, *map(fmean, zip(*whole, strict=True))))
    return found
