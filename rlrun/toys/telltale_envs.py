"""Envs in which a single mistake in an algorithm costs much of the return, for gates of regression runs.

A correct algorithm learns the best policy; a certain mistake makes another policy look better.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.toys.known_optimum import Step


class Apprenticeship(gymnasium.Env[int, int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Work or study: work pays 1 per step, or 3 after two unpaid steps of study. Episodes are truncated.

    The observation is the number of steps studied so far, from 0 to 2. Studying first is worth 3 gamma^2 / (1 - gamma),
    and working at once 1 / (1 - gamma), so studying is better if gamma is above 0.577. In episodes of three steps,
    studying pays off only beyond the truncation. An algorithm that does not bootstrap at the truncation, whose n-step
    returns continue into the next episode, or whose discount is too low, works at once. Longer episodes show which of
    the two a policy has learned: the best return of `episode_len` steps is 3 (`episode_len` - 2).
    """

    def __init__(self, episode_len: int = 3, wage: float = 1.0) -> None:
        """Creates the env; episodes are truncated after `episode_len` steps, and rewards are multiplied by `wage`."""
        self.observation_space = spaces.Discrete(3)
        self.action_space = spaces.Discrete(2)
        self._episode_len = episode_len
        self._wage = wage
        self._studied = 0
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Starts an episode without any studies."""
        super().reset(seed=seed)
        self._studied = self._elapsed = 0
        return 0, {}

    def step(self, action: int) -> Step:
        """Works (action 0) or studies (action 1)."""
        reward = 0.0 if action else (3.0 if self._studied == 2 else 1.0)
        self._studied = min(self._studied + int(action), 2)
        self._elapsed += 1
        return self._studied, self._wage * reward, False, self._elapsed >= self._episode_len, {}


class RareJackpot(gymnasium.Env[int, int]):  # type: ignore[misc]
    """Bandit whose action 0 always pays 0.17, and whose action 1 pays 1 with probability 0.1. Episodes have 100 steps.

    The best return is 17. Prioritized replay samples jackpots more often than they occur. Without importance weights,
    the value of action 1 converges to q with 0.1 (1 - q)^(1 + alpha) = 0.9 q^(1 + alpha) for priorities to the power
    alpha. For alpha = 1, q is 0.25, so the worse action looks better.
    """

    def __init__(self) -> None:
        """Creates the env."""
        self.observation_space = spaces.Discrete(1)
        self.action_space = spaces.Discrete(2)
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Starts an episode; the observation is constant."""
        super().reset(seed=seed)
        self._elapsed = 0
        return 0, {}

    def step(self, action: int) -> Step:
        """Takes the sure reward (action 0) or the lottery (action 1)."""
        self._elapsed += 1
        reward = float(self.np_random.random() < 0.1) if action else 0.17
        return 0, reward, False, self._elapsed >= 100, {}


class ForcedMoves(gymnasium.Env[dict[str, Any], int]):  # type: ignore[misc]
    """Env whose action mask leaves a choice in one step in five and otherwise forces action 1. Episodes have 50 steps.

    The network is not shown the mask. A forced action pays 1, and where there is a choice, action 0 pays 0.5 and action
    1 nothing, so the best return is 45 on average. A forced action has probability 1, and nothing can be learned from
    it. A policy trained with a loss that ignores the mask learns that action 1 pays, and always chooses it: its return
    is 40.
    """

    def __init__(self) -> None:
        """Creates the env."""
        self.observation_space = spaces.Dict({"constant": spaces.Box(0, 1, (1,)), ACTION_MASK: spaces.MultiBinary(2)})
        self.action_space = spaces.Discrete(2)
        self._elapsed = 0
        self._is_free = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode."""
        super().reset(seed=seed)
        self._elapsed = 0
        return self._show(), {}

    def step(self, action: int) -> Step:
        """Pays for the action, and samples whether the next step leaves a choice."""
        if not (action or self._is_free):
            raise ValueError("action 0 is forbidden")
        reward = (0.0 if action else 0.5) if self._is_free else 1.0
        self._elapsed += 1
        return self._show(), reward, False, self._elapsed >= 50, {}

    def _show(self) -> dict[str, Any]:
        self._is_free = self._elapsed % 5 == 4
        return {"constant": np.ones(1, np.float32), ACTION_MASK: np.array([self._is_free, 1], np.int8)}


class Cadence(gymnasium.Env[int, int]):  # type: ignore[misc]
    """Memory task without any cue: actions must alternate 1, 0, 1, 0, ... from an episode's first step on.

    The observation is constant, and an episode has 1 to 20 steps. The return is the fraction of correct actions: at
    best 1, and 1/2 on average without memory, or with a memory that is not cleared when an episode starts.
    """

    def __init__(self) -> None:
        """Creates the env."""
        self.observation_space = spaces.Discrete(1)
        self.action_space = spaces.Discrete(2)
        self._length = 1
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Starts an episode of random length."""
        super().reset(seed=seed)
        self._length = int(self.np_random.integers(1, 21))
        self._elapsed = 0
        return 0, {}

    def step(self, action: int) -> Step:
        """Pays for an action that keeps the cadence."""
        is_right = action == (self._elapsed + 1) % 2
        self._elapsed += 1
        return 0, float(is_right) / self._length, self._elapsed >= self._length, False, {}


class DistantSigns(gymnasium.Env[NDArray[np.float32], int]):  # type: ignore[misc]
    """Matching task with observations far from 0: a reward for telling whether a number is above or below 1000.

    The number is 1000 plus a standard normal number, and an episode has 10 steps. The best return is 10 times `prize`;
    random actions get half of it on average. A network needs normalized observations, in training and in evaluations
    alike. With a small `prize`, an entropy bonus is larger than advantages that are not standardized, so the policy
    remains random.
    """

    def __init__(self, prize: float = 1.0) -> None:
        """Creates the env; `prize` is the reward for a correct action."""
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,))
        self.action_space = spaces.Discrete(2)
        self._prize = prize
        self._shown = 0.0
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode with a random number."""
        super().reset(seed=seed)
        self._elapsed = 0
        return self._show(), {}

    def step(self, action: int) -> Step:
        """Rewards action 1 if the number is above 1000, else action 0; samples the next number."""
        reward = self._prize * float(action == (self._shown > 0))
        self._elapsed += 1
        return self._show(), reward, self._elapsed >= 10, False, {}

    def _show(self) -> NDArray[np.float32]:
        self._shown = float(self.np_random.standard_normal())
        return np.array([1000 + self._shown], np.float32)
