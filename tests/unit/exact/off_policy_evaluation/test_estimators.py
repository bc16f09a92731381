"""Off-policy estimators compared with the exact values of a small Markov decision process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.engine.functional.finite_mdp import FiniteMDP
from rlrun.engine.functional.returns import Doubles
from rlrun.exact.off_policy_evaluation.estimators import (
    ValueEstimate,
    WeighedEpisodes,
    direct_method,
    doubly_robust,
    effective_size,
    importance_sampling,
    per_decision_importance_sampling,
    with_closing_values,
)
from tests.tabular_episodes import BEHAVIOR, GAMMA, JUDGED, Sampled, sampled, small_mdp

MDP = small_mdp()
Q = MDP.q_of(JUDGED, GAMMA)
V: Doubles = (JUDGED * Q).sum(-1)
VALUE = MDP.at_start(V)
SETS = 2_000


def model_of(episodes: Sampled, error: float = 0.0) -> tuple[Doubles, Doubles]:
    """Action and state values of a model along episodes, with an error that depends on state and action."""
    q = Q + error * np.array([[1.0, -1.0], [0.5, 0.0], [-1.0, 1.0]])
    v: Doubles = (JUDGED * q).sum(-1)
    states = episodes.states[:-1]
    return np.where(episodes.valid, q[states, episodes.actions], 0.0), np.where(episodes.valid, v[states], 0.0)


def part(episodes: WeighedEpisodes, where: slice) -> WeighedEpisodes:
    return WeighedEpisodes(episodes.rewards[:, where], episodes.log_ratios[:, where], episodes.gamma)


Estimator = Callable[[WeighedEpisodes, Doubles, Doubles], ValueEstimate]
ESTIMATORS: dict[str, Estimator] = {
    "is": lambda episodes, q, v: importance_sampling(episodes, weighted=False),
    "wis": lambda episodes, q, v: importance_sampling(episodes, weighted=True),
    "pdis": lambda episodes, q, v: per_decision_importance_sampling(episodes, weighted=False),
    "wpdis": lambda episodes, q, v: per_decision_importance_sampling(episodes, weighted=True),
    "dr": lambda episodes, q, v: doubly_robust(episodes, q, v, weighted=False),
    "wdr": lambda episodes, q, v: doubly_robust(episodes, q, v, weighted=True),
}


UNBIASED = ("is", "pdis", "dr")


@cache
def estimates(names: tuple[str, ...], sets: int, episodes: int) -> dict[str, list[ValueEstimate]]:
    """Estimates for many data sets of the behavior policy; doubly robust estimators get a model with an error."""
    drawn = sampled(MDP, BEHAVIOR, sets * episodes, np.random.default_rng(0))
    weighed, (q, v) = drawn.weighed(MDP), model_of(drawn, error=1.0)
    places = [slice(i * episodes, (i + 1) * episodes) for i in range(sets)]
    return {
        name: [ESTIMATORS[name](part(weighed, where), q[:, where], v[:, where]) for where in places] for name in names
    }


def test_the_mean_of_unbiased_estimators_over_data_sets_equals_the_exact_value() -> None:
    for name, found in estimates(UNBIASED, SETS, episodes=20).items():
        values = np.array([estimate.value for estimate in found])
        assert abs(values.mean() - VALUE) < 3 * values.std(ddof=1) / np.sqrt(SETS), name


def test_per_decision_estimates_vary_less_than_whole_episode_estimates() -> None:
    found = estimates(UNBIASED, SETS, episodes=20)
    spread = {name: np.var([estimate.value for estimate in own]) for name, own in found.items()}
    assert spread["pdis"] < 0.8 * spread["is"]


def test_nominal_95_percent_intervals_cover_90_to_98_percent() -> None:
    for name, found in estimates(tuple(ESTIMATORS), sets=300, episodes=250).items():
        assert min(estimate.effective_size or 0.0 for estimate in found) >= 100, name
        covered = np.mean([low <= VALUE <= high for low, high in (estimate.ci95 for estimate in found)])
        assert 0.90 <= covered <= 0.98, name


def test_doubly_robust_is_exact_with_an_exact_model_of_a_deterministic_env() -> None:
    mdp = FiniteMDP(np.eye(3)[np.array([[1, 2], [2, 0], [0, 1]])] * 1.0, MDP.rewards, np.array([1.0, 0.0, 0.0]))
    drawn = sampled(mdp, BEHAVIOR, 30, np.random.default_rng(1))
    exact = mdp.q_of(JUDGED, GAMMA)
    values = (JUDGED * exact).sum(-1)
    q, v = exact[drawn.states[:-1], drawn.actions], values[drawn.states[:-1]]
    for weighted in (False, True):
        estimate = doubly_robust(drawn.weighed(mdp), q, v, weighted=weighted)
        assert estimate.value == pytest.approx(values[0])
    unweighted = doubly_robust(drawn.weighed(mdp), q, v, weighted=False)
    np.testing.assert_allclose(unweighted.deviations, 0.0, atol=1e-12)  # each episode's estimate is exact


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimates_without_a_model_equal_the_mean_return_if_all_ratios_are_one(name: str) -> None:
    drawn = sampled(MDP, BEHAVIOR, 50, np.random.default_rng(2))
    weighed = drawn.weighed(MDP)
    on_policy = WeighedEpisodes(weighed.rewards, np.zeros_like(weighed.log_ratios), GAMMA)
    nothing = np.zeros_like(weighed.rewards)
    estimate = ESTIMATORS[name](on_policy, nothing, nothing)
    assert estimate.value == pytest.approx(weighed.returns.mean())
    assert estimate.deviations.std(ddof=1) == pytest.approx(weighed.returns.std(ddof=1) / np.sqrt(50))
    assert estimate.effective_size == pytest.approx(50)


@pytest.mark.parametrize("weighted", [False, True])
def test_doubly_robust_with_ratios_of_one_and_equal_q_and_v_is_the_mean_return(
    weighted: bool,
) -> None:
    """If v is q of the taken action, the model's terms cancel, whatever the model."""
    drawn = sampled(MDP, BEHAVIOR, 50, np.random.default_rng(2))
    weighed, (q, _) = drawn.weighed(MDP), model_of(drawn, error=3.0)
    on_policy = WeighedEpisodes(weighed.rewards, np.zeros_like(weighed.log_ratios), GAMMA)
    assert doubly_robust(on_policy, q, q, weighted=weighted).value == pytest.approx(weighed.returns.mean())


def test_a_truncated_episode_ends_with_the_discounted_value_of_its_final_observation() -> None:
    rewards = np.array([[1.0, 1.0], [2.0, 0.0]])
    found = with_closing_values(rewards, np.array([2, 1]), np.array([10.0, 0.0]), gamma=0.5)
    np.testing.assert_array_equal(found, [[1.0, 1.0], [7.0, 0.0]])
    np.testing.assert_array_equal(rewards[1], [2.0, 0.0])


def test_the_estimate_of_the_direct_method_is_the_mean_value_of_the_initial_states() -> None:
    estimate = direct_method(np.array([1.0, 2.0, 6.0]))
    assert estimate.value == 3.0
    assert estimate.effective_size is None
    half = 4.302653 * np.sqrt(7.0 / 3)  # Student's t with two degrees of freedom, variance (4 + 1 + 9) / 2
    assert estimate.ci95 == pytest.approx((3 - half, 3 + half))


@pytest.mark.parametrize(
    ("weights", "size"), [([1.0, 1.0, 1.0, 1.0], 4.0), ([1.0, 0.0, 0.0, 0.0], 1.0), ([2.0, 1.0, 1.0, 0.0], 16 / 6)]
)
def test_the_effective_sample_size_follows_the_formula_of_kish(weights: list[float], size: float) -> None:
    with np.errstate(divide="ignore"):
        assert effective_size(np.log(weights)) == pytest.approx(size)


def test_whole_episode_estimators_have_an_effective_size_of_zero_if_no_episode_has_weight() -> None:
    rewards = np.ones((2, 3))
    apart = WeighedEpisodes(rewards, np.array([[0.0] * 3, [-np.inf] * 3]), 0.5)
    for name, size in {"is": 0.0, "wis": 0.0, "pdis": 1.25 / (1 / 3 + 0.25), "wpdis": 1.25 / (1 / 3 + 0.25)}.items():
        estimate = ESTIMATORS[name](apart, rewards, rewards)
        assert estimate.effective_size == pytest.approx(size)  # harmonic mean over steps, each with a size of 1 or more
        assert np.isfinite(estimate.value)


@settings(max_examples=50, deadline=None)
@given(st.floats(-400, 400), st.integers(0, 2**32 - 1))
def test_weighted_estimates_do_not_change_if_all_weights_are_multiplied_by_a_common_factor(
    shift: float, seed: int
) -> None:
    draws = np.random.default_rng(seed)
    rewards, ratios = draws.normal(size=(2, 4, 6))
    shifted = ratios.copy()
    shifted[0] += shift
    for name in ("wis", "wpdis"):
        before = ESTIMATORS[name](WeighedEpisodes(rewards, ratios, 0.9), rewards, rewards)
        after = ESTIMATORS[name](WeighedEpisodes(rewards, shifted, 0.9), rewards, rewards)
        assert after.value == pytest.approx(before.value, rel=1e-9, abs=1e-9)
        assert after.effective_size == pytest.approx(before.effective_size)


def test_the_difference_between_two_policies_on_the_same_episodes_has_a_paired_interval() -> None:
    values = np.array([1.0, 5.0, 9.0])
    ours, theirs = direct_method(values + 1), direct_method(values)
    assert theirs.ci95[1] > ours.ci95[0]  # the intervals overlap, and yet each episode is worth 1 more
    difference = ours.minus(theirs)
    assert difference.value == pytest.approx(1.0)
    assert difference.ci95 == pytest.approx((1.0, 1.0))
