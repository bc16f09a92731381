"""Bandits: contextual, linear and wheel bandits, and a task distribution of Bernoulli bandits for meta-RL."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from typing_extensions import override

PROBLEMS = 0x11EA
"""Seed key that makes a problem's coefficients independent of its contexts and noise."""

Doubles = NDArray[np.float64]

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
        """Starts an episode; the reset option `probabilities` sets each arm's probability of reward."""
        super().reset(seed=seed)
        self._probabilities = (options or {}).get(ARMS, self._probabilities)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Pulls an arm; the info's `minus_regret` is the arm's mean reward minus the best arm's."""
        own = self._probabilities[action]
        told = {"minus_regret": own - max(self._probabilities)}
        return 0, float(self.np_random.random() < own), True, False, told


def two_arms(seed: int) -> dict[str, Any]:
    """Samples a two-armed task of `BernoulliBandit`: its reset options, with uniform, independent `probabilities`.

    Source:
        Duan et al., arXiv:1611.02779, section 4.1.
    """
    drawn = np.random.default_rng([seed, FAMILY_DRAWS]).random(2)
    return {"reset_options": {ARMS: drawn.tolist()}}


class ContextualBandit(gymnasium.Env[NDArray[np.float32], int], ABC):  # type: ignore[misc]  # gymnasium is not type-checked
    """Base class of contextual bandits: episodes of a fixed number of pulls, each with a new random context.

    The info of the last step holds `minus_regret` (minus the sum of expected regrets) and `early_regret_share` (the
    fraction of this regret that falls in the first half of the episode).

    Args:
        pulls: Number of pulls (steps) per episode.
    """

    def __init__(self, pulls: int) -> None:
        self._pulls = pulls
        self._pulled = 0
        self._regret = self._early_regret = 0.0
        self._means: Doubles = np.zeros(0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts an episode, and samples the first context."""
        super().reset(seed=seed)
        self._pulled, self._regret, self._early_regret = 0, 0.0, 0.0
        self._begin()
        return self._next_context(), {}

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Pulls an arm; returns its reward and the next context."""
        reward = float(self._means[action] + self._noise())
        self._regret += float(self._means.max() - self._means[action])
        self._pulled += 1
        if self._pulled <= self._pulls // 2:
            self._early_regret = self._regret
        ends = self._pulled >= self._pulls
        return self._next_context(), reward, False, ends, self._told() if ends else {}

    def _told(self) -> dict[str, Any]:
        share = self._early_regret / self._regret if self._regret else 1.0
        return {"minus_regret": -self._regret, "early_regret_share": share}

    def _begin(self) -> None:
        """Samples the reward parameters of an episode."""

    @abstractmethod
    def _next_context(self) -> NDArray[np.float32]:
        """Samples a context, and computes the arms' mean rewards [A]."""

    @abstractmethod
    def _noise(self) -> float:
        """Samples the noise of a reward."""


class LinearBandit(ContextualBandit):
    """Linear contextual bandit with Gaussian noise; contexts and coefficients are unit vectors.

    Args:
        arms: A, the number of arms.
        features: Number of features of a context, D.
        noise: Standard deviation of rewards around their means.
        pulls: Number of pulls (steps) per episode.
        shared: Whether each arm has its own features [A, D] at each step, and all arms share the coefficients.
            Otherwise all arms share the context [D], and each has its own coefficients.
        problem: Seed of coefficients that are equal in all episodes; None to sample new coefficients in each episode.
        changes_every: Number of pulls after which coefficients are sampled again; None for a stationary bandit.
    """

    def __init__(
        self,
        arms: int = 5,
        features: int = 10,
        noise: float = 0.1,
        pulls: int = 2000,
        *,
        shared: bool = False,
        problem: int | None = None,
        changes_every: int | None = None,
    ) -> None:
        super().__init__(pulls)
        shape = (arms, features) if shared else (features,)
        self.observation_space = spaces.Box(-1.0, 1.0, shape, np.float32)
        self.action_space = spaces.Discrete(arms)
        self._deviation = noise
        self._is_shared = shared
        self._problem = problem
        self._changes_every = changes_every
        self._coefficient_draws = np.random.default_rng()
        self._coefficients: Doubles = np.zeros((1 if shared else arms, features))

    @override
    def _begin(self) -> None:
        problem = int(self.np_random.integers(2**62)) if self._problem is None else self._problem
        self._coefficient_draws = np.random.default_rng([problem, PROBLEMS])
        self._coefficients = unit_vectors(self._coefficient_draws, self._coefficients.shape)

    @override
    def _next_context(self) -> NDArray[np.float32]:
        if self._changes_every and self._pulled and not self._pulled % self._changes_every:
            self._coefficients = unit_vectors(self._coefficient_draws, self._coefficients.shape)
        context = unit_vectors(self.np_random, self.observation_space.shape)
        self._means = context @ self._coefficients[0] if self._is_shared else self._coefficients @ context
        return context.astype(np.float32)

    @override
    def _noise(self) -> float:
        return float(self.np_random.normal(0.0, self._deviation))


class WheelBandit(ContextualBandit):
    """Wheel bandit: five arms with contexts in the unit disc; near the rim, the quadrant's arm is optimal.

    Rewards are normal with standard deviation 0.01. The mean reward is 1.2 for the first arm, and 1 for the others. If
    the context's norm exceeds `delta`, the mean reward is 50 for the arm of the context's quadrant.

    Args:
        delta: Radius of the disc in which the first arm is optimal.
        pulls: Number of pulls (steps) per episode.

    Source:
        Riquelme, Tucker and Snoek, arXiv:1802.09127 (the wheel bandit).
    """

    def __init__(self, delta: float = 0.5, pulls: int = 2000) -> None:
        super().__init__(pulls)
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(5)
        self._delta = delta

    @override
    def _next_context(self) -> NDArray[np.float32]:
        radius, angle = np.sqrt(self.np_random.random()), 2 * np.pi * self.np_random.random()
        x, y = radius * np.cos(angle), radius * np.sin(angle)
        self._means = np.array([1.2, 1.0, 1.0, 1.0, 1.0])
        if radius > self._delta:
            self._means[1 + 2 * (x < 0) + (y < 0)] = 50.0
        return np.array([x, y], np.float32)

    @override
    def _noise(self) -> float:
        return float(self.np_random.normal(0.0, 0.01))


def unit_vectors(generator: np.random.Generator, shape: tuple[int, ...]) -> Doubles:
    """Samples unit vectors [..., D] uniformly on the sphere."""
    drawn = generator.standard_normal(shape)
    found: Doubles = drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)
    return found
