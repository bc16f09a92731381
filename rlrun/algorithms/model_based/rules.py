"""Hand-written termination rules and reward functions of some envs, for use in model-based algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def never(obs: NDArray[Any], actions: NDArray[Any], next_obs: NDArray[Any]) -> NDArray[np.bool_]:
    """Termination rule: none of N transitions terminates the episode, as in Pendulum."""
    return np.zeros(len(obs), np.bool_)


def inverted_pendulum_fell(obs: NDArray[Any], actions: NDArray[Any], next_obs: NDArray[Any]) -> NDArray[np.bool_]:
    """Termination rule of MuJoCo's InvertedPendulum: mask of transitions that end with a lean above 0.2 rad."""
    fell: NDArray[np.bool_] = ~np.isfinite(next_obs).all(-1) | (np.abs(next_obs[:, 1]) > 0.2)
    return fell


def inverted_pendulum_reward(obs: NDArray[Any], actions: NDArray[Any], next_obs: NDArray[Any]) -> NDArray[np.float32]:
    """Reward function of MuJoCo's InvertedPendulum: 1 for each of N transitions that does not end in a fall."""
    return (~inverted_pendulum_fell(obs, actions, next_obs)).astype(np.float32)


def cartpole_fell(obs: NDArray[Any], actions: NDArray[Any], next_obs: NDArray[Any]) -> NDArray[np.bool_]:
    """Termination rule of CartPole: mask of transitions that end with the cart beyond 2.4 or the pole beyond 12 deg."""
    fell: NDArray[np.bool_] = (np.abs(next_obs[:, 0]) > 2.4) | (np.abs(next_obs[:, 2]) > 12 * np.pi / 180)
    return fell


def one_per_step(obs: NDArray[Any], actions: NDArray[Any], next_obs: NDArray[Any]) -> NDArray[np.float32]:
    """Reward function of CartPole: 1 for each of N transitions."""
    return np.ones(len(obs), np.float32)
