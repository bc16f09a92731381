"""Contextual bandits: rewards and regret by hand; problems that stay, change or are redrawn."""

import itertools

import numpy as np
import pytest

from rlrun.toys.bandits import LinearBandit, WheelBandit
from tests.rounding import rounding_error


def test_regret_is_the_reward_missed_by_not_pulling_the_best_arms() -> None:
    env = LinearBandit(arms=3, features=2, noise=0.0, pulls=4)
    env.reset(seed=5)
    regrets, info = [], {}
    for _ in range(4):
        means = env._means.copy()
        _, reward, terminated, truncated, info = env.step(1)
        assert reward == means[1]
        regrets.append(means.max() - means[1])
        assert not terminated
    assert truncated
    assert info["minus_regret"] == pytest.approx(-sum(regrets))
    assert info["early_regret_share"] == pytest.approx(sum(regrets[:2]) / sum(regrets))


def test_contexts_and_coefficients_are_unit_vectors_and_rewards_are_linear_in_them() -> None:
    env = LinearBandit(noise=0.0)
    context, _ = env.reset(seed=0)
    assert env.observation_space.contains(context)
    np.testing.assert_allclose(np.linalg.norm(env._coefficients, axis=1), 1.0)
    assert np.linalg.norm(context) == pytest.approx(1.0)
    assert env.step(3)[1] == pytest.approx(env._coefficients[3] @ context, abs=rounding_error(len(context)))


def test_arms_that_have_their_own_features_share_coefficients() -> None:
    env = LinearBandit(arms=4, features=3, noise=0.0, shared=True)
    features, _ = env.reset(seed=0)
    assert features.shape == (4, 3)
    assert env.step(2)[1] == pytest.approx(features[2] @ env._coefficients[0], abs=rounding_error(3))


def test_a_numbered_problem_is_the_same_in_every_episode_and_otherwise_a_new_one_is_drawn() -> None:
    for problem, stays in ((7, True), (None, False)):
        env = LinearBandit(problem=problem)
        env.reset(seed=0)
        first = env._coefficients
        env.reset(seed=1)
        assert (first == env._coefficients).all() == stays


def test_coefficients_of_a_bandit_change_after_every_given_number_of_pulls() -> None:
    env = LinearBandit(changes_every=3)
    env.reset(seed=0)
    seen = [env._coefficients]
    for _ in range(7):
        env.step(0)
        seen.append(env._coefficients)
    same = [bool((a == b).all()) for a, b in itertools.pairwise(seen)]
    assert same == [True, True, False, True, True, False, True]


def test_the_best_arm_of_the_wheel_is_0_inside_delta_and_the_quadrants_arm_outside() -> None:
    env = WheelBandit(delta=0.5, pulls=100)
    context, _ = env.reset(seed=0)
    quadrants = {(True, True): 1, (True, False): 2, (False, True): 3, (False, False): 4}
    best_arms = set()
    for _ in range(100):
        x, y = context
        best = 0 if np.hypot(x, y) <= 0.5 else quadrants[bool(x > 0), bool(y > 0)]
        assert env._means.argmax() == best
        best_arms.add(best)
        context, reward, _, _, _ = env.step(best)
        assert reward == pytest.approx(1.2 if best == 0 else 50.0, abs=0.1)
    assert best_arms == {0, 1, 2, 3, 4}


def test_contexts_of_the_wheel_are_uniform_on_the_disc() -> None:
    env = WheelBandit(delta=0.5)
    env.reset(seed=1)
    contexts = np.stack([env._next_context() for _ in range(4000)])
    inside = np.linalg.norm(contexts, axis=1) <= 0.5
    assert inside.mean() == pytest.approx(0.25, abs=0.03)
