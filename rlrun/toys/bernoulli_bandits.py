"""Bernoulli bandits: a task distribution over the arms' reward probabilities, for meta-RL."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

ARMS = "probabilities"
"""Name of the reset option with each arm's reward probability."""

FAMILY_DRAWS = 0xBA2D
"""Seed key that makes sampled tasks independent of their episodes' random numbers."""


class BernoulliBandit(gymnasium.Env[int, int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Bernoulli bandit: one pull per episode, reward 1 or 0, constant observation.

    The reset option `probabilities` holds each arm's probability of reward, 1/2 by default.

    Args:
        arms: Number of arms.
    """

    def __init__(self, arms: int = 2) -> None:
        self.observation_space = spaces.Discrete(1)
        self.action_space = spaces.Discrete(arms)
        self._probabilities = [0.5] * arms

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Starts an episode; the reset option `probabilities` sets the task."""
        super().reset(seed=seed)
        self._probabilities = (options or {}).get(ARMS, self._probabilities)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Pulls an arm; the info's `minus_regret` is the arm's mean reward minus that of the best arm."""
        own = self._probabilities[action]
        told = {"minus_regret": own - max(self._probabilities)}
        return 0, float(self.np_random.random() < own), True, False, told


def two_arms(seed: int) -> dict[str, Any]:
    """Samples a two-armed bandit task, with uniform and independent reward probabilities.

    Source:
        Duan et al., arXiv:1611.02779, section 4.1.
    """
    drawn = np.random.default_rng([seed, FAMILY_DRAWS]).random(2)
    return {"reset_options": {ARMS: drawn.tolist()}}
