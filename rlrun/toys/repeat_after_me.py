"""Memory task: repeating earlier observations, unsolvable for memoryless policies."""

from __future__ import annotations

from collections import deque
from typing import Any

import gymnasium
from gymnasium import spaces

Step = tuple[int, float, bool, bool, dict[str, Any]]
"""Result of `step`: observation, reward, terminated, truncated, info."""


class RepeatAfterMe(gymnasium.Env[int, int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Memory task: repeat the random bit observed `delay` steps ago, for reward 1, else -1.

    The first `delay` steps have reward 0. The optimal return is `episode_len` - `delay`. A policy without memory gets 0
    on average, if the delay is not 0.
    """

    def __init__(self, delay: int = 2, episode_len: int = 101) -> None:
        """Creates the env; each observation must be repeated `delay` steps later."""
        self.observation_space = spaces.Discrete(2)
        self.action_space = spaces.Discrete(2)
        self._delay = delay
        self._episode_len = episode_len
        self._elapsed = 0
        self._shown: deque[int] = deque(maxlen=delay + 1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Samples the first bit."""
        super().reset(seed=seed)
        self._elapsed = 0
        self._shown.clear()
        return self._show(), {}

    def step(self, action: int) -> Step:
        """Returns the reward of the action, and the next random bit."""
        reward = 0.0
        if self._elapsed >= self._delay:
            reward = 1.0 if action == self._shown[0] else -1.0
        self._elapsed += 1
        return self._show(), reward, self._elapsed == self._episode_len, False, {}

    def _show(self) -> int:
        self._shown.append(int(self.np_random.integers(2)))
        return self._shown[-1]
