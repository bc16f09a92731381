"""Bernoulli bandits: a family of tasks that differ in the arms' probabilities of reward."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

ARMS = "probabilities"
"""The reset option with the probability that each arm pays."""

FAMILY_DRAWS = 0xBA2D
"""Keeps the draws of tasks apart from those of their episodes."""


class BernoulliBandit(gymnasium.Env[int, int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """An episode is one pull of an arm, with reward 1 or 0; the observation is constant.

    The reset option `probabilities` holds each arm's probability of reward, 1/2 by default.

    Args:
        arms: Number of arms.
    """

    def __init__(self, arms: int = 2) -> None:
        self.observation_space = spaces.Discrete(1)
        self.action_space = spaces.Discrete(arms)
        self._probabilities = [0.5] * arms

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Waits for a pull."""
        super().reset(seed=seed)
        self._probabilities = (options or {}).get(ARMS, self._probabilities)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Pulls an arm; `minus_regret` in the info is how much more it pays on average than the best one, at most 0."""
        own = self._probabilities[action]
        told = {"minus_regret": own - max(self._probabilities)}
        return 0, float(self.np_random.random() < own), True, False, told


def two_arms(seed: int) -> dict[str, Any]:
    """Returns a bandit with two arms, whose probabilities are drawn uniformly and independently.

    Source:
        Duan et al., arXiv:1611.02779, section 4.1.
    """
    drawn = np.random.default_rng([seed, FAMILY_DRAWS]).random(2)
    return {"reset_options": {ARMS: drawn.tolist()}}
