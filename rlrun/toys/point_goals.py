"""2D navigation to an unobserved goal: a family of tasks for meta-learning, one for each seed."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Floats = NDArray[np.float32]

GOALS = 0x60A1
"""Seed key that makes goals independent of other envs' random numbers with an equal seed."""

GOAL = "goal"
"""Name of the reset option with the goal's coordinates."""

REACH = 0.5
"""Bound of goal coordinates: goals lie in [-REACH, REACH]^2."""

SPEED = 0.1
"""Maximum displacement per step in each coordinate."""

NEAR = 0.01
"""Distance to the goal at which an episode ends."""


class PointGoals(gymnasium.Env[Floats, Floats]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Point navigation from (0, 0) to an unobserved goal; observation: position, reward: minus the squared distance.

    The goal is uniform in a square, and determined by the episode's seed: episodes with equal seeds are one task. The
    reset option `goal` sets another one.
    Without knowledge of the goal, the optimal policy stays at the start, with a mean cost of 1/6 per step.

    Args:
        episode_len: Steps after which an episode is truncated.

    Source:
        Finn et al., arXiv:1703.03400, section 5.3.
    """

    def __init__(self, episode_len: int = 100) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,))
        self.action_space = spaces.Box(-SPEED, SPEED, (2,))
        self._episode_len = episode_len
        self._elapsed = 0
        self._place = np.zeros(2)
        self._goal = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; without a seed and the option `goal`, the goal of the previous episode is kept."""
        if seed is not None:
            self._goal = _drawn(seed)
        if options and GOAL in options:
            self._goal = np.asarray(options[GOAL], np.float64)
        self._elapsed, self._place = 0, np.zeros(2)
        return self._place.astype(np.float32), {}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Moves the point by the action, and ends the episode near the goal or at the time limit."""
        self._place = self._place + np.clip(action, -SPEED, SPEED)
        self._elapsed += 1
        squared = float(np.square(self._place - self._goal).sum())
        is_there = squared < NEAR**2
        return self._place.astype(np.float32), -squared, is_there, self._elapsed >= self._episode_len, {}


def goal(seed: int) -> dict[str, Any]:
    """Samples a task, the goal of the env's own episode with this seed, as a reset option."""
    return {"reset_options": {GOAL: _drawn(seed).tolist()}}


def _drawn(seed: int) -> NDArray[np.float64]:
    return np.random.default_rng([seed, GOALS]).uniform(-REACH, REACH, 2)
