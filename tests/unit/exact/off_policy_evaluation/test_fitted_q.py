"""Fitted Q evaluation compared with linear solves and closed forms."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.functional.finite_mdp import FiniteMDP
from rlrun.engine.functional.returns import Doubles
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.exact.off_policy_evaluation.action_value_inputs import DiscreteInputs, SampledInputs, plain_model
from rlrun.exact.off_policy_evaluation.fitted_q import FitSettings, FittedQ
from rlrun.exact.off_policy_evaluation.recorded_episodes import RecordedEpisodes
from rlrun.exact.off_policy_evaluation.target_policy import TargetActions
from tests.tabular_episodes import BEHAVIOR, GAMMA, JUDGED, recorded, sampled, small_mdp

SPACES = Spaces(gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2))
LINEAR = plain_model(ModelConfig(), hiddens=())
"""A Q function with a weight for each state and action; states share only the biases of actions."""


def tabular(episodes: RecordedEpisodes, gamma: float, settings: FitSettings, fits: int = 1) -> FittedQ:
    probabilities = JUDGED[episodes.observations(np.arange(episodes.num_rows))].astype(np.float32)
    inputs = DiscreteInputs(SPACES, LINEAR, episodes, TargetActions(None, probabilities))
    return FittedQ(inputs, episodes, np.ones((fits, episodes.num_episodes)), gamma, settings, seed=0)


def empirical_mdp(episodes: RecordedEpisodes) -> FiniteMDP:
    """The process with the recorded frequencies of next states and the mean rewards."""
    steps = np.flatnonzero(episodes.valid)
    states = episodes.observations(np.arange(episodes.num_rows))
    where = states[steps], episodes.actions[steps]
    counts, sums, follows = np.zeros((3, 2)), np.zeros((3, 2)), np.zeros((3, 2, 3))
    np.add.at(counts, where, 1)
    np.add.at(sums, where, episodes.rewards[steps])
    np.add.at(follows, (*where, states[steps + 1]), ~episodes.terminateds[steps])
    starts: Doubles = np.full(3, 1 / 3)
    return FiniteMDP(follows / counts[..., None], sums / counts, starts)


def test_fitted_q_evaluation_matches_the_solution_of_the_linear_equations() -> None:
    """Truncated episodes bootstrap, because the solved process has no time limit."""
    episodes = recorded(sampled(small_mdp(), BEHAVIOR, 60, np.random.default_rng(0)))
    exact = empirical_mdp(episodes).q_of(JUDGED, GAMMA)
    fitted = tabular(episodes, GAMMA, FitSettings(sgd_steps=250, hiddens=(), lr=0.05))
    states = episodes.observations(np.arange(episodes.num_rows))
    valid, ended = episodes.valid, np.zeros(episodes.num_rows, np.bool_)
    ended[episodes.final_rows[episodes.terminated]] = True
    expected_v = np.where(ended, 0.0, (JUDGED * exact).sum(-1)[states])
    np.testing.assert_allclose(fitted.q()[0, valid], exact[states, episodes.actions][valid], atol=0.04)
    np.testing.assert_allclose(fitted.v()[0], expected_v, atol=0.04)
    assert (fitted.q()[0, ~valid] == 0).all()


def test_a_truncated_episode_does_not_bootstrap_without_a_discount() -> None:
    states, valid = np.array([0, 1, 2, 1]), np.array([True, False, True, False])
    episodes = RecordedEpisodes(
        lambda rows: states[rows], np.zeros(4, np.int64), np.array([3.0, 0.0, -1.0, 0.0]), np.zeros(4, np.bool_), valid
    )
    fitted = tabular(episodes, 1.0, FitSettings(sgd_steps=100, hiddens=(), lr=0.2, minibatch_size=16))
    np.testing.assert_allclose(fitted.q()[0], [3.0, 0.0, -1.0, 0.0], atol=1e-2)


def test_each_fit_uses_its_own_weights_of_the_episodes() -> None:
    """Two episodes of one step, with the same state and action: the fitted value is the weighted mean reward."""
    states, valid = np.zeros(4, np.int64), np.array([True, False, True, False])
    episodes = RecordedEpisodes(
        lambda rows: states[rows], np.zeros(4, np.int64), np.array([3.0, 0.0, -1.0, 0.0]), valid, valid
    )
    probabilities = JUDGED[states].astype(np.float32)
    inputs = DiscreteInputs(SPACES, LINEAR, episodes, TargetActions(None, probabilities))
    weights = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 1.5], [2.0, 2.0]])
    settings = FitSettings(sgd_steps=200, hiddens=(), lr=0.1, minibatch_size=64)
    fitted = FittedQ(inputs, episodes, weights, 0.9, settings, seed=0)
    np.testing.assert_allclose(fitted.q()[:, valid].T, [[3.0, -1.0, 0.0, 1.0]] * 2, atol=0.05)


def test_fits_are_reproducible_and_start_from_different_parameters() -> None:
    episodes = recorded(sampled(small_mdp(), BEHAVIOR, 20, np.random.default_rng(0)))
    settings = FitSettings(sgd_steps=5)
    first, again = (tabular(episodes, GAMMA, settings, fits=2).q() for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (first[0] != first[1])[episodes.valid].any()  # the initial parameters differ


def test_the_default_number_of_minibatches_grows_with_the_horizon() -> None:
    assert [FitSettings().sgd_steps_within(horizon) for horizon in (1, 100, 10**6)] == [2_000, 3_000, 20_000]
    assert FitSettings(sgd_steps=7).sgd_steps_within(100) == 7


def test_state_values_with_continuous_actions_use_actions_of_the_judged_policy_not_recorded_ones() -> None:
    """One-step episodes whose reward is twice the action plus the observation: v is the value of the judged action."""
    draws = np.random.default_rng(0)
    observations, actions = draws.normal(size=(2, 80, 1)).astype(np.float32)
    valid = np.arange(80) % 2 == 0
    rewards = np.where(valid, 2 * actions[:, 0] + observations[:, 0], 0.0)
    episodes = RecordedEpisodes(lambda rows: observations[rows], actions, rewards, valid, valid)
    spaces = Spaces(gymnasium.spaces.Box(-9, 9, (1,)), gymnasium.spaces.Box(-9, 9, (1,)))
    judged = TargetActions(None, None, (np.full_like(actions, 0.5), np.full_like(actions, 1.5)))
    settings = FitSettings(sgd_steps=150, hiddens=(), lr=0.1, minibatch_size=40)
    inputs = SampledInputs(spaces, LINEAR, episodes, judged)
    fitted = FittedQ(inputs, episodes, np.ones((1, 40)), 0.9, settings, seed=0)
    expected = 2 * 1.0 + observations[valid, 0]
    np.testing.assert_allclose(fitted.v()[0, valid], expected, atol=0.05)
    assert fitted.q()[0, valid] == pytest.approx(rewards[valid], abs=0.05)
