"""Candidates, their returns, and the directions that follow from them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from rlrun.algorithms.evolution.candidates import (
    ListedCandidates,
    MirroredPairs,
    Returns,
    as_gradient,
    perturbation,
    summed_perturbations,
)
from rlrun.algorithms.evolution.exact_sums import ExactSums
from rlrun.algorithms.evolution.generations import centred_ranks, joined_returns, ranks_within_bounds
from rlrun.engine.policy.weights import Weights
from tests.rounding import rounding_error


def test_a_pair_mirrors_its_noise_around_the_parameters_and_plays_the_same_episode() -> None:
    present = np.array([1.0, -2.0, 0.5], np.float32)
    weights = Weights(3, present, env_steps=50, schedules={"sigma": ((0, 0.2), (100, 0.4))})
    pairs = MirroredPairs(4)
    up, down = (pairs.parameters(weights, 7, 5, candidate) for candidate in (6, 7))
    np.testing.assert_allclose((up + down) / 2, present, atol=rounding_error(2))
    np.testing.assert_allclose(up - present, 0.3 * perturbation(7, 5, 3, 3), atol=rounding_error(4))
    assert [pairs.episode_of(candidate) for candidate in range(pairs.number)] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_noise_depends_only_on_the_seed_the_generation_and_the_pair() -> None:
    np.testing.assert_array_equal(perturbation(1, 2, 3, 10), perturbation(1, 2, 3, 10))
    draws = {perturbation(*which, 10).tobytes() for which in ((1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4))}
    assert len(draws) == 4


def test_listed_candidates_are_stored_after_the_current_parameters_in_the_weights() -> None:
    weights = Weights(0, np.arange(12, dtype=np.float32))
    listed = ListedCandidates(3)
    rows = [listed.parameters(weights, 0, 0, candidate).tolist() for candidate in range(3)]
    assert rows == [[3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert {listed.episode_of(candidate) for candidate in range(3)} == {0}


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=30))
def test_centred_ranks_average_ties_and_sum_to_zero(returns: list[int]) -> None:
    ranks = centred_ranks(np.array(returns, np.float64))
    np.testing.assert_allclose(ranks, (rankdata(returns) - 1) / (len(returns) - 1) - 0.5, atol=1e-12)
    assert ranks.sum() == pytest.approx(0, abs=1e-9)


def test_overshoots_are_penalized_by_half_the_return_range_per_deviation() -> None:
    returns, overshoots = np.array([10.0, 11.0, 12.0, 13.0, 14.0]), np.array([0.0, 0.0, 0.0, 1.0, 2.0])
    # The range from 11 to 13 is 2, and the deviation is 0.8, so 13 and 14 count as 13 - 1 / 0.8 and 14 - 2 / 0.8.
    np.testing.assert_allclose(overshoots.std(), 0.8)
    assert (-ranks_within_bounds(returns, overshoots)).tolist() == [4, 3, 0, 1, 2]


def test_ties_in_returns_are_broken_by_lower_overshoot_and_then_by_order() -> None:
    assert (-ranks_within_bounds(np.ones(5), np.array([3.0, 0.0, 2.0, 0.0, 1.0]))).tolist() == [4, 0, 3, 1, 2]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30))
def test_without_overshoots_candidates_are_ranked_by_returns_alone(returns: list[int]) -> None:
    found = ranks_within_bounds(np.array(returns, np.float64), np.zeros(len(returns)))
    assert np.argsort(-found).tolist() == np.argsort(-np.array(returns), kind="stable").tolist()


def test_returns_joined_from_all_workers_are_sorted_by_candidate() -> None:
    seen = [{"a": ExactSums.of(np.ones((rows, 1)))} for rows in (2, 3)]
    first = Returns(4, np.array([0, 3], np.int32), np.array([10.0, 13.0]), seen[0], np.array([0.0, 0.3]))
    second = Returns(4, np.array([1, 2], np.int32), np.array([11.0, 12.0]), seen[1], np.array([0.1, 0.2]))
    idle = Returns(4, np.array([], np.int32), np.array([]), overshoots=np.array([]))
    joined = joined_returns([first, idle, second])
    assert joined.returns.tolist() == [10, 11, 12, 13]
    assert joined.overshoots is not None
    assert joined.overshoots.tolist() == [0.0, 0.1, 0.2, 0.3]
    assert joined.seen["a"].moments().count == 5


def test_an_update_direction_is_the_weighted_sum_of_the_pairs_noise() -> None:
    found = summed_perturbations(9, 1, [(2, 0.5), (4, -1.0)], 6)
    np.testing.assert_allclose(found, 0.5 * perturbation(9, 1, 2, 6) - perturbation(9, 1, 4, 6), atol=rounding_error(2))
    assert as_gradient(np.array([1.0, -2.0], np.float32)).tolist() == [-1, 2, 1]
