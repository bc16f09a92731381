"""A single player's returns count as wins or losses against a bar."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlrun.algorithms.alphazero.ranked_rewards import RankedGame
from rlrun.algorithms.alphazero.tree_search import BatchedSearch, SearchSettings
from rlrun.engine.messages.errors import EnvironmentUnusable
from rlrun.engine.worlds.games.array_game import Flags
from rlrun.engine.worlds.games.searchable import ObjectGame
from tests.unit.engine.worlds.random_play import uniform


class Counts:
    """One player counts to 3 or more by adding 1 or 2, and gets the final number; some games start with 1."""

    def __init__(self, seed: int, at: int | None = None) -> None:
        self.number = seed % 2 if at is None else at
        self.mover = 1

    @property
    def result(self) -> float | None:
        return float(self.number) if self.number >= 3 else None

    def observe(self) -> Any:
        return np.array([self.number], np.float32)

    def legal(self) -> Flags:
        return np.ones(2, np.bool_)

    def play(self, action: int) -> None:
        self.number += action + 1

    def clone(self) -> Counts:
        return Counts(0, self.number)

    def at(self, observation: Any) -> Counts:
        return Counts(0, int(observation[0]))


def test_a_return_that_reaches_the_bar_is_a_win_and_any_lower_one_a_loss() -> None:
    ranked = RankedGame(ObjectGame("count", Counts, 2))
    states = ranked.first(3, seed=1)
    assert [state.number for state in states] == [1, 0, 1]
    states = ranked.play(ranked.play(states, np.array([0, 0, 0])), np.array([0, 0, 1]))  # count to 3, 2, 4
    for bar, results in ((-np.inf, [1, 0, 1]), (3.0, [1, 0, 1]), (3.5, [-1, 0, 1]), (4.5, [-1, 0, -1])):
        ranked.bar = bar
        ended, worth = ranked.results(states)
        assert ended.tolist() == [True, False, True]
        assert worth.tolist() == results
    assert ranked.returns(states).tolist() == [3, 0, 4]


def test_a_single_player_search_finds_a_return_that_reaches_the_bar() -> None:
    ranked = RankedGame(ObjectGame("count", Counts, 2))
    ranked.bar = 4.0  # from 0, a game can reach 4 only through 2
    search = BatchedSearch(ranked, lambda states, legal: (uniform(legal), np.zeros(len(states))), SearchSettings())
    search.begin(ranked.first(2))
    search.run(40)
    assert search.visits.argmax(1).tolist() == [1, 0]  # to reach 4: 0 + 2 + 2, and 1 + 1 + 2


def test_a_search_refuses_results_outside_minus_1_to_1_and_suggests_ranked_returns(wording) -> None:
    game = ObjectGame("count", Counts, 2)
    search = BatchedSearch(game, lambda states, legal: (uniform(legal), np.zeros(len(states))), SearchSettings())
    search.begin(game.first(2))  # games that begin at 0 or 1 end with 3 or 4
    with wording.raised(EnvironmentUnusable, "config.ranked_returns"):
        search.run(40)
