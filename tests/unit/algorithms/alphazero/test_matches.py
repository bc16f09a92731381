"""Matches between two predictions are counted for the first one, whichever side it plays."""

from __future__ import annotations

import numpy as np
import pytest

from rlrun.algorithms.alphazero.alphazero import points_of
from rlrun.algorithms.alphazero.tree_search import Predict, SearchSettings
from rlrun.engine.worlds.games.array_game import Flags, Floats, States
from rlrun.toys.game_arrays import TicTacToeArrays
from tests.unit.engine.worlds.random_play import RandomPlay, uniform


def wrong(states: States, legal: Flags) -> tuple[Floats, Floats]:
    """Mistakes bad moves for good ones, and searches hardly at all."""
    priors, values = RandomPlay(TicTacToeArrays(), 0)(states, legal)
    first = np.zeros_like(priors)
    first[np.arange(len(legal)), legal.argmax(1)] = 1
    return 0.999 * first + 0.001 * priors, -values


def blind(states: States, legal: Flags) -> tuple[Floats, Floats]:
    return uniform(legal), np.zeros(len(states), np.float32)


def points(mine: Predict, theirs: Predict, simulations: int = 40, exploring_moves: int = 2) -> float:
    return points_of(
        mine,
        theirs,
        TicTacToeArrays(),
        40,
        simulations=simulations,
        settings=SearchSettings(),
        temperature=1.0,
        exploring_moves=exploring_moves,
        generator=np.random.default_rng(0),
    )


def test_a_player_with_a_sound_search_wins_nearly_all_points_on_either_side() -> None:
    sound = RandomPlay(TicTacToeArrays(), 1, games=4)
    found = points(sound, wrong), points(wrong, RandomPlay(TicTacToeArrays(), 1, games=4))
    assert found[0] > 0.85
    assert found[1] < 0.15


def test_identical_deterministic_players_each_get_half_the_points() -> None:
    assert points(blind, blind, simulations=30, exploring_moves=0) == pytest.approx(0.5)
