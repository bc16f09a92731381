"""Envs with one mistake each: wrappers around envs that agents learn in, named by the specs in `env_faults.yaml`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

Observation = NDArray[np.float32]
Step = tuple[Observation, float, bool, bool, dict[str, Any]]


class TerminatesAtTimeLimit(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Wrapper with a mistake: returns the end by a time limit as `terminated`."""

    def step(self, action: Any) -> Step:
        """Steps the env, and confuses both kinds of ends."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, float(reward), terminated or truncated, False, info


class ScalesObservations(gymnasium.ObservationWrapper[Any, Any, Any]):  # type: ignore[misc]
    """Wrapper that multiplies each number of the observation; a mistake where numbers become large.

    Args:
        env: The env.
        factors: A factor for each number.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], factors: list[float]) -> None:
        super().__init__(env)
        self._factors = np.array(factors, np.float32)
        self.observation_space = Box(-np.inf, np.inf, self._factors.shape, np.float32)

    def observation(self, observation: Observation) -> Observation:
        """Returns the observation in other units."""
        return observation * self._factors


class ScalesRewards(gymnasium.RewardWrapper[Any, Any]):  # type: ignore[misc]
    """Wrapper that multiplies rewards; a mistake where they become large.

    Args:
        env: The env.
        factor: The factor.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], factor: float) -> None:
        super().__init__(env)
        self._factor = factor

    def reward(self, reward: float) -> float:
        """Returns the reward in other units."""
        return self._factor * float(reward)


class DeclaresWiderActions(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]
    """Wrapper with a mistake: declares bounds of actions several times as wide as those to which it clips them.

    Args:
        env: The env.
        factor: How many times as wide the declared bounds are.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], factor: float) -> None:
        super().__init__(env)
        self._inner: Any = env.action_space
        self.action_space = Box(factor * self._inner.low, factor * self._inner.high, dtype=np.float32)

    def step(self, action: NDArray[np.float32]) -> Step:
        """Steps the env with the clipped action."""
        observation, reward, terminated, truncated, info = self.env.step(
            np.clip(action, self._inner.low, self._inner.high)
        )
        return observation, float(reward), terminated, truncated, info


class ShowsPreviousObservation(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]
    """Wrapper with a mistake: each observation is shown one step late, after the policy has had to act."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Starts an episode; the first observation is shown twice."""
        self._latest, info = self.env.reset(seed=seed, options=options)
        return self._latest, info

    def step(self, action: Any) -> Step:
        """Steps the env, and returns the observation from before the step."""
        shown = self._latest
        self._latest, reward, terminated, truncated, info = self.env.step(action)
        return shown, float(reward), terminated, truncated, info


class LateReward(gymnasium.Env[Any, Any]):  # type: ignore[misc]
    """Env whose first action decides about a reward in the last step; no mistake, but it needs a distant horizon.

    Observation: [3]: the cue, -1 or 1; whether the first action was the cue's, 1 or -1, 0 before it; the time from 0 to
    1. The reward is 1 in the last step if the first action was the cue's. Other actions have no effect.

    Args:
        steps: Steps of an episode.
    """

    def __init__(self, steps: int = 200) -> None:
        self.observation_space = Box(-1.0, 1.0, (3,))
        self.action_space = Discrete(2)
        self._steps = steps
        self._cue, self._chosen, self._elapsed = 1, 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Starts an episode with a random cue."""
        super().reset(seed=seed)
        self._cue, self._chosen, self._elapsed = 2 * int(self.np_random.integers(2)) - 1, 0, 0
        return self._shown(), {}

    def step(self, action: int) -> Step:
        """Keeps the first action; pays at the end."""
        if self._elapsed == 0:
            self._chosen = 1 if 2 * int(action) - 1 == self._cue else -1
        self._elapsed += 1
        ends = self._elapsed == self._steps
        return self._shown(), float(ends and self._chosen == 1), ends, False, {}

    def _shown(self) -> Observation:
        return np.array([self._cue, self._chosen, self._elapsed / self._steps], np.float32)
