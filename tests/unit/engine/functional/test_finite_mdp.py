"""Exact values of small decision processes, by hand."""

import numpy as np
import pytest

from rlrun.engine.functional.finite_mdp import FiniteMDP, greedy


def chain(time_limit: int | None = None) -> FiniteMDP:
    """Two states: action 0 stays and pays 1, action 1 goes on from the first (paying 0), or ends with 10."""
    transitions = np.zeros((2, 2, 2))
    transitions[0, 0, 0] = transitions[1, 0, 1] = transitions[0, 1, 1] = 1.0
    rewards = np.array([[1.0, 0.0], [1.0, 10.0]])
    return FiniteMDP(transitions, rewards, np.array([0.5, 0.5]), time_limit)


def test_optimal_values_solve_bellmans_equation() -> None:
    q = chain().optimal_q(0.9)
    # A reward of 1 forever is worth 10, the same as the reward for ending. In the first state, staying is worth 10, and
    # moving on only 0.9 * 10.
    np.testing.assert_allclose(q, [[10.0, 9.0], [10.0, 10.0]], atol=1e-8)
    assert chain().at_start(q.max(-1)) == pytest.approx(10.0)


def test_the_values_of_a_policy_solve_its_linear_bellman_equations() -> None:
    mdp, policy = chain(), np.array([[0.5, 0.5], [0.25, 0.75]])
    q = mdp.q_of(policy, 0.9)
    follow = np.einsum("sa,sat->st", policy, mdp.transitions)
    values = np.linalg.solve(np.eye(2) - 0.9 * follow, (policy * mdp.rewards).sum(-1))
    np.testing.assert_allclose((policy * q).sum(-1), values, atol=1e-8)


def test_undiscounted_values_are_the_best_returns_within_the_time_limit() -> None:
    q = chain(time_limit=3).optimal_q(1.0)
    np.testing.assert_allclose(q, [[1 + 10, 1 + 10], [2 + 10, 10]])


def test_undiscounted_values_without_a_time_limit_are_refused(wording) -> None:
    with wording.raised(ValueError):
        chain().optimal_q(1.0)


def test_greedy_takes_the_first_of_equally_good_actions() -> None:
    np.testing.assert_array_equal(greedy(np.array([[1.0, 1.0], [0.0, 2.0]])), [[1.0, 0.0], [0.0, 1.0]])
