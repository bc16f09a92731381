"""Trials of RL^2 meta-learning: several episodes of one task, joined to one episode."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Discrete

TRIAL_DRAWS = 0x77A1
"""Seed constant that separates the seeds of a trial's episodes from the env's random stream."""


class Trials(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Env wrapper for RL^2 meta-learning: joins several consecutive episodes of one task to one episode (a trial).

    All episodes of a trial start with the trial's reset options, which define the task; their seeds are derived from
    the trial's seed. The step that ends an episode returns the first observation of the next episode, with `done` 1.
    The end of the last episode ends the trial. Recurrent state then persists across the trial's episodes. The last
    action and reward are observed with `model.views: {prev_actions: 1, prev_rewards: 1}`.

    Numbers in the infos at episode ends, such as a regret, are summed over the trial.

    Args:
        env: The env.
        episodes: Number of episodes in a trial.

    Source:
        Duan et al., arXiv:1611.02779, section 2.2.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], episodes: int = 2) -> None:
        super().__init__(env)
        if episodes < 1:
            raise ValueError(f"Trials: a trial has at least 1 episode, not {episodes}")
        self.observation_space = Dict({"done": Discrete(2), "observation": env.observation_space})
        self._episodes = episodes
        self._seeds = np.random.default_rng()
        self._options: dict[str, Any] | None = None
        self._left = 0
        self._sums: dict[str, float] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the env to the first episode of a new trial."""
        if seed is not None:
            self._seeds = np.random.default_rng([seed, TRIAL_DRAWS])
        self._options, self._left, self._sums = options, self._episodes, {}
        observation, info = self._begin()
        return self._shown(observation, 0), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes a step; if it ends an episode, resets the env to the trial's next episode."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if not (terminated or truncated):
            return self._shown(observation, 0), reward, False, False, info
        self._left -= 1
        for name, value in info.items():
            if isinstance(value, int | float):
                self._sums[name] = self._sums.get(name, 0.0) + value
        if not self._left:
            return self._shown(observation, 1), reward, terminated, truncated, {**info, **self._sums}
        first, _ = self._begin()
        return self._shown(first, 1), reward, False, False, info

    def _begin(self) -> tuple[Any, dict[str, Any]]:
        options = None if self._options is None else dict(self._options)
        return self.env.reset(seed=int(self._seeds.integers(2**31)), options=options)  # type: ignore[no-any-return]

    def _shown(self, observation: Any, done: int) -> dict[str, Any]:
        return {"done": np.int64(done), "observation": observation}
