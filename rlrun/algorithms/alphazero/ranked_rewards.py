"""Ranked rewards (R2): returns of one-player games as wins or losses against past returns."""

from __future__ import annotations

import numpy as np

from rlrun.engine.worlds.games.array_game import ArrayGame, Flags, Floats, Indices, States, Tree

BAR = "ranked/bar"
"""Name of the win threshold among the statistics that are broadcast with the weights."""


class RankedGame:
    """One-player game whose result is 1 if its return reaches a threshold, else -1.

    The threshold is a percentile of the player's recent returns, so that the player competes against past policies
    (R2, Laterre et al., arXiv:1807.01672). A return equal to the threshold is a win; the paper decides ties at random.

    Args:
        game: One-player game whose results are returns.

    Attributes:
        bar: Minimum return for a win; minus infinity before the first returns.
    """

    def __init__(self, game: ArrayGame) -> None:
        self.num_actions = game.num_actions
        self.symmetries = game.symmetries
        self.bar = -np.inf
        self._game = game

    def returns(self, states: States) -> Floats:
        """Returns of finished games, [n], before they are ranked as wins or losses."""
        return self._game.results(states)[1]

    def results(self, states: States) -> tuple[Flags, Floats]:
        """Mask of finished games [n], and ranked results [n]: win (1), loss (-1), or 0 for unfinished games."""
        ended, returns = self._game.results(states)
        ranks = np.where(returns >= self.bar, np.float32(1), np.float32(-1))
        return ended, np.where(ended, ranks, np.float32(0))

    def first(self, number: int, seed: int = 0) -> States:
        """Creates the initial positions of a given number of games."""
        return self._game.first(number, seed)

    def legal(self, states: States) -> Flags:
        """Action masks of positions [n]: the legal actions, [n, num_actions]."""
        return self._game.legal(states)

    def play(self, states: States, actions: Indices) -> States:
        """Plays one action in each of n positions; returns the n next positions."""
        return self._game.play(states, actions)

    def movers(self, states: States) -> Floats:
        """Sign of the player to move in positions [n]: always 1, since there is one player."""
        return self._game.movers(states)

    def observe(self, states: States) -> Tree:
        """Observations of n positions, a tree of arrays [n, ...]."""
        return self._game.observe(states)

    def positions(self, observations: Tree) -> States:
        """Reconstructs n positions from their observations, a tree of arrays [n, ...]."""
        return self._game.positions(observations)
