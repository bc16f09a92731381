"""Ranked rewards: returns of one-player games as wins or losses against past returns."""

from __future__ import annotations

import numpy as np

from rlrun.worlds.array_game import ArrayGame, Flags, Floats, States, Tree
from rlrun.worlds.symmetries import Indices

BAR = "ranked/bar"
"""Name of the statistic sent with the weights: the return that the next games must reach."""


class RankedGame:
    """One-player game with the result 1 if its return reaches a threshold, else -1.

    With the bar at a percentile of the player's own last returns it is a game of self-play: it is won by who does
    better than most of one's past selves (R2, Laterre et al., arXiv:1807.01672). A return that is equal to the bar
    counts as a win, where the paper draws lots.

    Args:
        game: The game, whose results are returns.

    Attributes:
        bar: The return that is a win; minus infinity before there are any.
    """

    def __init__(self, game: ArrayGame) -> None:
        self.num_actions = game.num_actions
        self.symmetries = game.symmetries
        self.bar = -np.inf
        self._game = game

    def returns(self, states: States) -> Floats:
        """Returns the returns of games that have ended, [n]."""
        return self._game.results(states)[1]

    def results(self, states: States) -> tuple[Flags, Floats]:
        """Returns whether games have ended, and their results: win (1) or loss (-1)."""
        ended, returns = self._game.results(states)
        ranks = np.where(returns >= self.bar, np.float32(1), np.float32(-1))
        return ended, np.where(ended, ranks, np.float32(0))

    def first(self, number: int, seed: int = 0) -> States:
        """Returns a number of initial positions."""
        return self._game.first(number, seed)

    def legal(self, states: States) -> Flags:
        """Returns the legal actions of each position, [n, A]."""
        return self._game.legal(states)

    def play(self, states: States, actions: Indices) -> States:
        """Returns the positions after an action in each."""
        return self._game.play(states, actions)

    def movers(self, states: States) -> Floats:
        """Returns 1 for each position."""
        return self._game.movers(states)

    def observe(self, states: States) -> Tree:
        """Returns the player's observations."""
        return self._game.observe(states)

    def positions(self, observations: Tree) -> States:
        """Returns positions of observations."""
        return self._game.positions(observations)
