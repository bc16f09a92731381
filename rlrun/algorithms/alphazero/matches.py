"""Matches between two policy-value networks, played in parallel games."""

from __future__ import annotations

import numpy as np

from rlrun.algorithms.alphazero.moves import draw_actions
from rlrun.algorithms.alphazero.tree_search import BatchedSearch, Predict, SearchSettings
from rlrun.engine.worlds.games.array_game import ArrayGame


def points_of(
    mine: Predict,
    theirs: Predict,
    game: ArrayGame,
    games: int,
    *,
    simulations: int,
    settings: SearchSettings,
    temperature: float,
    exploring_moves: int,
    generator: np.random.Generator,
) -> float:
    """Score of one policy-value network against another, as a fraction of the points; a draw is half a point.

    Each side moves first in every other game. Both sides use equal search settings, without root noise.

    Args:
        mine: Leaf evaluation (priors and values of positions) of the scored network.
        theirs: Leaf evaluation of the opponent.
        game: A game of two players.
        games: Number of games.
        simulations: Simulations before each move.
        settings: Settings of the tree search.
        temperature: Temperature of the first moves, see `draw_actions`.
        exploring_moves: Number of initial moves that are sampled; later moves are the most visited ones.
        generator: Random generator of the sampled moves.
    """
    states, points, move = game.first(games), 0.0, 0
    side = np.where(np.arange(games) % 2, -1.0, 1.0)  # as which player the first prediction plays
    searches = {1: BatchedSearch(game, mine, settings), -1: BatchedSearch(game, theirs, settings)}
    while len(states):
        turns = side * game.movers(states)
        actions = np.zeros(len(states), np.int64)
        heat = temperature if move < exploring_moves else 0.0
        for who, search in searches.items():
            rows = (turns == who).nonzero()[0]
            if len(rows):
                search.begin(states[rows])
                search.run(simulations)
                actions[rows] = draw_actions(search.visits, np.full(len(rows), heat), generator)
        states, move = game.play(states, actions), move + 1
        ended, outcomes = game.results(states)
        points += float(((1 + side * game.movers(states) * outcomes)[ended] / 2).sum())
        states, side = states[~ended], side[~ended]
    return points / games
