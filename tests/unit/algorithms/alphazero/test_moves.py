"""Moves are drawn in proportion to powers of visits, and illegal moves never."""

from __future__ import annotations

import numpy as np
import pytest

from rlrun.algorithms.alphazero.self_play_worker import draw_actions

VISITS = np.tile(np.array([0, 1, 3, 0, 4], np.float32), (20_000, 1))


@pytest.mark.parametrize(("temperature", "expected"), [(1.0, [1, 3, 4]), (0.5, [1, 9, 16]), (2.0, [1, 3**0.5, 2])])
def test_probabilities_are_visits_to_the_power_of_one_over_the_temperature(
    temperature: float, expected: list[float]
) -> None:
    drawn = draw_actions(VISITS, np.full(len(VISITS), temperature), np.random.default_rng(0))
    found = np.bincount(drawn, minlength=5) / len(drawn)
    assert found[[0, 3]].tolist() == [0, 0]
    np.testing.assert_allclose(found[[1, 2, 4]], np.array(expected) / sum(expected), atol=0.015)


def test_at_temperature_0_the_most_visited_action_is_taken_whatever_number_is_drawn() -> None:
    temperatures = np.where(np.arange(len(VISITS)) % 2 == 0, 0.0, 1.0)
    drawn = draw_actions(VISITS, temperatures, np.random.default_rng(0))
    assert (drawn[::2] == 4).all()
    assert len(set(drawn[1::2].tolist())) == 3


def test_a_rows_temperature_does_not_affect_draws_in_other_rows() -> None:
    cold = draw_actions(VISITS[:10], np.array([0.0] + [1.0] * 9), np.random.default_rng(1))
    warm = draw_actions(VISITS[:10], np.ones(10), np.random.default_rng(1))
    assert cold[1:].tolist() == warm[1:].tolist()


def test_the_largest_random_number_still_selects_a_visited_action() -> None:
    class AlmostOne:
        def random(self, number: int) -> np.ndarray:
            return np.full(number, np.nextafter(1.0, 0.0))

    visits = np.array([[3, 1, 0, 0], [0, 0, 0, 7]], np.float32)
    assert draw_actions(visits, np.ones(2), AlmostOne()).tolist() == [1, 3]  # type: ignore[arg-type]
