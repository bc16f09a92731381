"""Advantages over a linear baseline that is fitted to the returns themselves."""

from __future__ import annotations

import numpy as np

from rlrun.algorithms.meta.adapting_worker import baseline_advantages
from tests.rounding import rounding_error


def random_returns(length: int = 12, slots: int = 7) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    valid = np.arange(length)[:, None] < rng.integers(3, length, slots)
    return rng.normal(size=(length, slots)).astype(np.float32), rng.normal(size=(length, slots, 2)), valid


def test_advantages_are_standardized_least_squares_residuals_of_returns_to_go() -> None:
    rewards, observations, valid = random_returns()
    gamma, slots = 0.9, rewards.shape[1]
    x, y = [], []
    for slot in range(slots):
        steps = int(valid[:, slot].sum())
        for t in range(steps):
            time, seen = t / 100, observations[t, slot]
            x.append([*seen, *seen**2, time, time**2, time**3, 1.0])
            y.append(sum(gamma**k * rewards[t + k, slot] for k in range(steps - t)))
    fitted, *_ = np.linalg.lstsq(
        np.concatenate([np.array(x), np.sqrt(1e-5) * np.eye(8)]), np.concatenate([y, np.zeros(8)]), rcond=None
    )
    residuals = np.array(y) - np.array(x) @ fitted
    expected = (residuals - residuals.mean()) / residuals.std()
    found = baseline_advantages(rewards, observations, valid, gamma)
    np.testing.assert_allclose(found.T[valid.T], expected, atol=rounding_error(len(expected)))
    assert not found[~valid].any()


def test_a_reward_that_the_linear_fit_cannot_explain_has_the_largest_advantage() -> None:
    observations = np.random.default_rng(0).normal(size=(1, 40, 2))  # episodes of one step
    luck = np.where(np.arange(40) == 2, 5.0, 0.0)
    rewards = (observations[..., 0] * 3 + 1 + luck).astype(np.float32)
    assert baseline_advantages(rewards, observations, np.ones((1, 40), np.bool_), 0.9)[0].argmax() == 2


def test_invalid_cells_do_not_affect_advantages() -> None:
    rewards, observations, valid = random_returns()
    expected = baseline_advantages(rewards, observations, valid, 0.9)
    found = baseline_advantages(
        np.where(valid, rewards, 1e6).astype(np.float32), np.where(valid[..., None], observations, -7.0), valid, 0.9
    )
    np.testing.assert_array_equal(found, expected)
