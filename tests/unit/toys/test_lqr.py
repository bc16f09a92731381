"""The double integrator beside the Riccati equation."""

import numpy as np
import pytest

from rlrun.toys.lqr import BEST_COST, DYNAMICS, FORCE, FORCE_COST, HORIZON, DoubleIntegrator
from tests.rounding import rounding_error


def riccati() -> tuple[list[np.ndarray], np.ndarray]:
    """Returns the best gains u = -k x from the first step on, and the cost-to-go P of the first state."""
    p, gains = np.zeros((2, 2)), []
    for _ in range(HORIZON):
        k = FORCE @ p @ DYNAMICS / (FORCE_COST + FORCE @ p @ FORCE)
        p = np.eye(2) + DYNAMICS.T @ p @ DYNAMICS - np.outer(DYNAMICS.T @ p @ FORCE, k)
        gains.append(k)
    return gains[::-1], p


def test_the_best_cost_is_what_the_riccati_equation_says() -> None:
    _, p = riccati()
    assert np.trace(p) / 3 == pytest.approx(BEST_COST, abs=5e-4)  # E[x x^T] = I / 3


def test_an_episode_under_the_best_gains_costs_what_they_promise() -> None:
    gains, p = riccati()
    env = DoubleIntegrator()
    for seed in range(5):
        state, _ = env.reset(seed=seed)
        first, cost, truncated = state.astype(float), 0.0, False
        for k in gains:
            assert not truncated
            state, reward, terminated, truncated, _ = env.step(np.array([-k @ state], np.float32))
            cost -= reward
        assert truncated
        assert not terminated
        assert cost == pytest.approx(first @ p @ first, rel=rounding_error(2 * len(gains)))
