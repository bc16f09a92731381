"""Ratings, compared with closed forms."""

import math

import numpy as np
import pytest

from rlrun.engine.league.ratings import Outcomes, Payoffs, elo_ratings, table


@pytest.mark.parametrize("rate", [0.01, 0.25, 0.5, 0.75, 0.9])
def test_the_ratings_of_two_players_differ_by_the_log_odds_of_a_win(rate: float) -> None:
    games = 1e9  # enough to make the prior irrelevant
    ratings = elo_ratings(np.array([[0.0, rate * games], [(1 - rate) * games, 0.0]]))
    assert ratings[0] - ratings[1] == pytest.approx(400 * math.log10(rate / (1 - rate)), abs=1e-3)


def test_ratings_that_generated_the_results_are_recovered() -> None:
    true = np.array([0.0, 100.0, 250.0, -80.0])
    points = 1e8 / (1 + 10 ** ((true[None] - true[:, None]) / 400))
    np.fill_diagonal(points, 0.0)
    found = elo_ratings(points)
    np.testing.assert_allclose(found - found[0], true, atol=1e-2)


def test_a_player_that_has_won_every_game_has_a_higher_but_finite_rating() -> None:
    found = elo_ratings(np.array([[0.0, 20.0], [0.0, 0.0]]))
    assert 300 < found[0] - found[1] < 3000


def test_players_that_have_played_no_games_are_rated_0() -> None:
    np.testing.assert_allclose(elo_ratings(np.zeros((3, 3))), np.zeros(3))


def test_the_anchor_is_rated_0_and_a_draw_counts_as_half_a_win() -> None:
    payoffs = Payoffs()
    payoffs.record("new", "old", Outcomes(5_000_000, 5_000_000, 0))
    ratings = payoffs.elo(anchor="old")
    assert ratings["old"] == 0.0
    assert ratings["new"] == pytest.approx(400 * math.log10(3), abs=0.01)


def test_results_are_mirrored_for_the_opponent_and_replace_earlier_ones_of_the_pair() -> None:
    payoffs = Payoffs()
    payoffs.record("a", "b", Outcomes(1, 0, 0))
    payoffs.record("a", "b", Outcomes(3, 2, 1))
    assert payoffs.between("b", "a") == Outcomes(1, 2, 3)
    assert payoffs.between("a", "c") is None


def test_restored_payoffs_give_the_same_table_of_ratings() -> None:
    payoffs, restored = Payoffs(), Payoffs()
    payoffs.record("a", "b", Outcomes(3, 2, 1))
    payoffs.record("c", "a", Outcomes(0, 2, 1))
    restored.load_state(payoffs.state())
    assert table(restored, restored.elo("a")) == table(payoffs, payoffs.elo("a"))


def test_games_of_removed_players_are_forgotten() -> None:
    payoffs = Payoffs()
    payoffs.record("a", "b", Outcomes(3, 2, 1))
    payoffs.record("c", "a", Outcomes(0, 2, 1))
    payoffs.keep(["a", "b"])
    assert payoffs.names == ["a", "b"]
    assert payoffs.between("c", "a") is None
