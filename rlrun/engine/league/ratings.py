"""Results of games between the players (policies and scripts) of a league, and Elo ratings fitted to them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.functional.saved_numbers import as_count

ELO = 400.0 / math.log(10.0)
"""Elo points per unit of log odds."""

PRIOR_STD = 2000.0
"""Standard deviation of the prior of ratings, in Elo points: wide enough to matter only if all games were won or none
was played."""

_STEPS, _TOLERANCE = 100, 1e-10


@dataclass(frozen=True)
class Outcomes:
    """Numbers of games that one player won, drew and lost against another.

    Attributes:
        wins: Games won.
        draws: Games drawn.
        losses: Games lost.

    Examples:
        >>> outcomes = Outcomes(wins=6, draws=2, losses=2)
        >>> outcomes.games, outcomes.win_rate, outcomes.swapped()
        (10, 0.7, Outcomes(wins=2, draws=2, losses=6))
    """

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        """Number of games played: wins, draws and losses."""
        return self.wins + self.draws + self.losses

    @property
    def win_rate(self) -> float:
        """Fraction of games won; a draw counts half."""
        return (self.wins + 0.5 * self.draws) / self.games

    def swapped(self) -> Outcomes:
        """Returns the outcomes from the opponent's perspective, with wins and losses exchanged."""
        return Outcomes(self.losses, self.draws, self.wins)

    def __add__(self, other: Outcomes) -> Outcomes:
        return Outcomes(self.wins + other.wins, self.draws + other.draws, self.losses + other.losses)


def total(outcomes: Iterable[Outcomes]) -> Outcomes:
    """Adds up wins, draws and losses of several results."""
    return sum(outcomes, Outcomes(0, 0, 0))


class Payoffs:
    """Payoff matrix of a league: the latest results of games between each pair of players (policies and scripts).

    Attributes:
        names: Names of the players that have played, in the order of their first games.
    """

    def __init__(self) -> None:
        self._outcomes: dict[tuple[str, str], Outcomes] = {}
        self.names: list[str] = []

    def record(self, first: str, second: str, outcomes: Outcomes) -> None:
        """Records one player's wins, draws and losses against another; replaces earlier results of this pair."""
        self.names += [name for name in (first, second) if name not in self.names]
        self._outcomes[first, second] = outcomes
        self._outcomes[second, first] = outcomes.swapped()

    def between(self, first: str, second: str) -> Outcomes | None:
        """Returns the wins, draws and losses of one player against another; None if they played no games."""
        return self._outcomes.get((first, second))

    def keep(self, names: Sequence[str]) -> None:
        """Removes the results of all games except those between the given players."""
        self.names = [name for name in self.names if name in names]
        self._outcomes = {
            pair: own for pair, own in self._outcomes.items() if pair[0] in self.names and pair[1] in self.names
        }

    def elo(self, anchor: str) -> dict[str, float]:
        """Returns the Elo ratings of all players by name, from a Bradley-Terry fit; the anchor player has rating 0."""
        points = np.zeros((len(self.names), len(self.names)))
        for (first, second), own in self._outcomes.items():
            points[self.names.index(first), self.names.index(second)] = own.wins + 0.5 * own.draws
        ratings = elo_ratings(points)
        zero = ratings[self.names.index(anchor)] if anchor in self.names else 0.0
        return {name: float(rating - zero) for name, rating in zip(self.names, ratings, strict=True)}

    def state(self) -> list[Any]:
        """Returns the payoff matrix as plain data, for checkpoints."""
        order = {name: number for number, name in enumerate(self.names)}
        return [
            [first, second, own.wins, own.draws, own.losses]
            for (first, second), own in self._outcomes.items()
            if order[first] < order[second]
        ]

    def load_state(self, state: Sequence[Any]) -> None:
        """Restores the payoff matrix from `state()`."""
        self._outcomes, self.names = {}, []
        for first, second, *counts in state:
            self.record(str(first), str(second), Outcomes(*(as_count(count) for count in counts)))


def elo_ratings(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the Elo ratings of M players: the maximum a posteriori estimate of the Bradley-Terry model.

    The odds of player i against j are exp(r_i - r_j) with ratings r (Bradley and Terry, 1952, "Rank analysis of
    incomplete block designs"); 1 unit of r is 400 / ln 10 Elo points. The prior of each r is normal around 0 with
    `PRIOR_STD`. Without the prior, if one of two players wins with rate p, their ratings would differ by
    400 log10(p / (1 - p)).

    Args:
        points: Points of player i (row) in games against j (column), 1 for a win and 1/2 for a draw, [M, M].

    Returns:
        Ratings, [M], whose mean is 0.
    """
    number = len(points)
    precision = (ELO / PRIOR_STD) ** 2
    games = points + points.T
    ratings = np.zeros(number)
    for _ in range(_STEPS):
        expected = 1.0 / (1.0 + np.exp(ratings[None, :] - ratings[:, None]))
        gradient = points.sum(axis=1) - (games * expected).sum(axis=1) - precision * ratings
        curvature = games * expected * (1.0 - expected)
        hessian = np.diag(curvature.sum(axis=1) + precision) - curvature
        # A Newton step is limited to one unit of log odds: if all games were won, a full step would overshoot.
        step = np.linalg.solve(hessian, gradient)
        ratings += step / max(1.0, float(np.abs(step).max(initial=0.0)))
        if np.abs(step).max(initial=0.0) < _TOLERANCE:
            break
    elo: NDArray[np.float64] = ratings * ELO
    return elo


def table(payoffs: Payoffs, ratings: Mapping[str, float]) -> dict[str, Any]:
    """Returns ratings and results of games as plain data, with players in order of descending rating."""
    names = sorted(ratings, key=lambda name: -ratings[name])
    return {
        "ratings": {name: ratings[name] for name in names},
        "payoffs": [
            {"first": first, "second": second, "wins": own.wins, "draws": own.draws, "losses": own.losses}
            for first in names
            for second in names
            if (own := payoffs.between(first, second)) is not None
        ],
    }
