"""Broken variants of CartPole: envs for runs that cannot learn well."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv


class Endless(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Never reports that an episode has ended."""

    def __init__(self) -> None:
        super().__init__(CartPoleEnv())

    def step(self, action: Any) -> Any:
        """Restarts without a report when the pole has fallen."""
        observation, reward, terminated, _, info = self.env.step(action)
        if terminated:
            observation, _ = self.env.reset()
        return observation, reward, False, False, info


class Paying(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Pays a given reward for each step."""

    def __init__(self, factor: float) -> None:
        super().__init__(gymnasium.make("CartPole-v1", disable_env_checker=True))
        self.factor = factor

    def step(self, action: Any) -> Any:
        """Multiplies the reward."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, self.factor * float(reward), terminated, truncated, info


class Far(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shows numbers a thousand times too large."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1", disable_env_checker=True))
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)

    def observation(self, observation: Any) -> Any:
        """Multiplies the observation."""
        return 1000 * observation


class Unseeded(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Adds noise that no seed determines."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1", disable_env_checker=True))
        self.noise = np.random.default_rng()

    def observation(self, observation: Any) -> Any:
        """Adds the noise."""
        return observation + self.noise.normal(0, 0.01, 4).astype(np.float32)


class Arms(gymnasium.Env[Any, Any]):
    """One pull of four arms, of which one pays ten times as much as the others."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, best: int) -> None:
        self.best = best

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Always shows the same observation."""
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> Any:
        """Pays and ends."""
        return np.ones(1, np.float32), 10.0 if action == self.best else 1.0, True, False, {}
