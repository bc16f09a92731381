"""Predictions without a network: random play, and equal probabilities."""

from __future__ import annotations

import numpy as np

from rlrun.engine.worlds.games.array_game import ArrayGame, Flags, Floats, States


class RandomPlay:
    """All legal actions are equally probable, and a position's value is the mean result of random play.

    Args:
        game: The game.
        seed: Seed of the moves.
        games: Number of games played to the end from each position, to average their results.
    """

    def __init__(self, game: ArrayGame, seed: int, games: int = 1) -> None:
        self._game = game
        self._generator = np.random.default_rng(seed)
        self._games = games

    def __call__(self, states: States, legal: Flags) -> tuple[Floats, Floats]:
        """Returns probabilities [n, A] and values [n] to the movers."""
        movers = self._game.movers(states)
        values = np.zeros(len(states) * self._games, np.float32)
        going, at = np.arange(len(values)), np.repeat(states, self._games, axis=0)
        may = np.repeat(legal, self._games, axis=0)
        while len(going):
            actions = (self._generator.random(may.shape) * may).argmax(1)
            at = self._game.play(at, actions)
            ended, outcomes = self._game.results(at)
            values[going[ended]] = outcomes[ended] * self._game.movers(at[ended])
            going, at = going[~ended], at[~ended]
            may = self._game.legal(at)
        return uniform(legal), values.reshape(-1, self._games).mean(1) * movers


def uniform(legal: Flags) -> Floats:
    """Returns equal probabilities of all legal actions, [n, A]."""
    probabilities: Floats = legal / legal.sum(1, keepdims=True, dtype=np.float32)
    return probabilities
