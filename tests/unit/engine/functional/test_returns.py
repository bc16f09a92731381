import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlrun.engine.functional.returns import discounted_returns, forward_discounted_sums, gae, reverse_scan

T, B = 13, 3
numbers = st.floats(-10, 10, width=32)


def gae_by_hand(rewards, values, terminateds, truncateds, gamma, gae_lambda):
    advantages = np.zeros_like(rewards)
    for b in range(rewards.shape[1]):
        following = 0.0
        for t in reversed(range(len(rewards))):
            bootstrap = 0.0 if terminateds[t, b] else values[t + 1, b]
            delta = rewards[t, b] + gamma * bootstrap - values[t, b]
            if terminateds[t, b] or truncateds[t, b]:
                following = 0.0
            following = delta + gamma * gae_lambda * following
            advantages[t, b] = following
    return advantages


@given(
    rewards=arrays(np.float64, (T, B), elements=numbers),
    values=arrays(np.float64, (T + 1, B), elements=numbers),
    terminateds=arrays(np.bool_, (T, B)),
    truncateds=arrays(np.bool_, (T, B)),
    gamma=st.floats(0, 1),
    gae_lambda=st.floats(0, 1),
)
def test_gae_equals_a_plain_loop_over_steps(rewards, values, terminateds, truncateds, gamma, gae_lambda):
    advantages, targets = gae(rewards, values, terminateds, truncateds, gamma, gae_lambda)
    expected = gae_by_hand(rewards, values, terminateds, truncateds, gamma, gae_lambda)
    np.testing.assert_allclose(advantages, expected, atol=1e-9)
    np.testing.assert_allclose(targets, expected + values[:-1], atol=1e-9)


def one_step(terminated, truncated):
    advantages, _ = gae(
        np.array([[1.0]]), np.array([[2.0], [10.0]]), np.array([[terminated]]), np.array([[truncated]]), 0.9, 0.95
    )
    return advantages[0, 0]


def test_gae_bootstraps_from_the_final_observation_after_a_truncation():
    assert one_step(terminated=False, truncated=True) == pytest.approx(1 + 0.9 * 10 - 2)


def test_gae_does_not_bootstrap_after_a_termination():
    assert one_step(terminated=True, truncated=False) == pytest.approx(1 - 2)


def test_a_step_that_is_both_terminated_and_truncated_counts_as_terminated():
    assert one_step(terminated=True, truncated=True) == pytest.approx(1 - 2)


def test_advantages_do_not_cross_an_episodes_end():
    rewards = np.zeros((3, 1))
    rewards[2] = 100.0
    ends = np.array([[False], [True], [False]])
    nothing = np.zeros((3, 1), bool)
    advantages, _ = gae(rewards, np.zeros((4, 1)), nothing, ends, 0.99, 0.95)
    assert advantages[:2].tolist() == [[0.0], [0.0]]


def test_gae_targets_with_lambda_1_are_monte_carlo_returns():
    rewards, nothing = np.ones((5, 1)), np.zeros((5, 1), bool)
    terminated = nothing.copy()
    terminated[-1] = True
    _, targets = gae(rewards, np.full((6, 1), 7.0), terminated, nothing, 0.5, 1.0)
    np.testing.assert_allclose(targets[:, 0], [1.9375, 1.875, 1.75, 1.5, 1.0])


@given(
    deltas=arrays(np.float64, (T, B), elements=numbers),
    decays=arrays(np.float64, (T, B), elements=st.floats(0, 1)),
)
def test_the_reverse_scan_solves_its_recurrence(deltas, decays):
    solved = np.zeros((T + 1, B))
    for t in reversed(range(T)):
        solved[t] = deltas[t] + decays[t] * solved[t + 1]
    np.testing.assert_allclose(reverse_scan(deltas, decays), solved[:-1], atol=1e-9)


@given(
    rewards=arrays(np.float64, (T, B), elements=numbers),
    ends=arrays(np.bool_, (T, B)),
    valid=arrays(np.bool_, (T, B)),
    start=arrays(np.float64, (B,), elements=numbers),
)
def test_forward_sums_include_only_valid_steps_and_restart_after_every_end(rewards, ends, valid, start):
    rewards, ends = np.where(valid, rewards, 0.0), ends & valid
    expected, before = np.zeros((T, B)), start.copy()
    for t in range(T):
        expected[t] = np.where(valid[t], rewards[t] + 0.9 * before, before)
        before = np.where(ends[t], 0.0, expected[t])
    np.testing.assert_allclose(forward_discounted_sums(rewards, ends, valid, 0.9, start), expected, atol=1e-9)


def test_discounted_returns_sum_the_rewards_until_the_end_of_each_episode() -> None:
    rewards = np.array([1.0, 2.0, 4.0, 0.0, 8.0, 0.0])
    found = discounted_returns(rewards, np.array([0, 4]), np.array([3, 1]), 0.5)
    assert found.tolist() == [3.0, 4.0, 4.0, 0.0, 8.0, 0.0]
    none = np.zeros(0, np.int64)
    assert discounted_returns(np.zeros(0), none, none, 0.5).tolist() == []
