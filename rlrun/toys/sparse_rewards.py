"""Control tasks with sparse rewards: CartPole rewarded at the end of episodes, MountainCar rewarded at the goal."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.envs.classic_control.mountain_car import MountainCarEnv
from gymnasium.spaces import Box
from numpy.typing import NDArray

_SCALES = np.array([2.4, 3.0, 0.2095, 3.0])
"""Scales of position, velocity, angle and angular velocity (m, m/s, rad, rad/s)."""

State = tuple[tuple[float, ...], int]


class SparseMountainCar(MountainCarEnv):  # type: ignore[misc]  # gymnasium is not type-checked
    """MountainCar-v0 with a sparse reward: 1 at the goal and 0 before, instead of -1 per step.

    The original reward of -1 per step drives exploration, since frequently visited states get lower values. The sparse
    reward does not, and a random policy hardly ever reaches the goal within the 200 steps of an episode.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        """Creates the env."""
        super().__init__(render_mode=render_mode)
        self._elapsed = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Starts an episode; returns the initial observation."""
        self._elapsed = 0
        observation, info = super().reset(seed=seed, options=options)
        return observation, info

    def step(self, action: int) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Accelerates the car; the reward is 1 at the goal, else 0."""
        self._elapsed += 1
        observation, _, terminated, _, info = super().step(action)
        return observation, float(terminated), terminated, self._elapsed >= 200, info


class SparseCartPole(CartPoleEnv):  # type: ignore[misc]  # gymnasium is not type-checked
    """CartPole-v0 with a terminal reward: the number of steps at the episode's end, 0 before.

    Observation: [4]: the cart's position and velocity, the pole's angle and angular velocity, each scaled to a range of
    about [-1, 1]. Actions: Discrete(2), push to the left or to the right. Ends: when the pole falls or the cart leaves
    the track, and after `steps` steps.

    `get_state`, `set_state` and `state_of` allow tree search in this env by `rlrun.engine.worlds.games.searched_env`.
    An observation does not include the number of steps so far: a state inferred from an observation starts at 0 steps.

    Args:
        steps: Steps after which an episode is truncated.
    """

    def __init__(self, steps: int = 200, render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        self.observation_space = Box(-np.inf, np.inf, (4,), np.float32)
        self._limit = steps
        self._elapsed = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts an episode; returns the initial observation."""
        super().reset(seed=seed)
        self._elapsed = 0
        return self._shown(), {}

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Pushes the cart to the left or to the right."""
        _, _, terminated, _, _ = super().step(action)
        self._elapsed += 1
        truncated = self._elapsed >= self._limit
        reward = float(self._elapsed) if terminated or truncated else 0.0
        return self._shown(), reward, terminated, truncated, {}

    def get_state(self) -> State:
        """Returns the simulator state: the four CartPole variables and the step count."""
        return tuple(map(float, self.state)), self._elapsed

    def set_state(self, state: State) -> None:
        """Restores a simulator state of a running episode."""
        numbers, self._elapsed = state
        self.state = np.array(numbers)
        self.steps_beyond_terminated = None

    def state_of(self, observation: NDArray[np.float32]) -> State:
        """Reconstructs a simulator state from an observation, with step count 0."""
        return tuple((observation.astype(np.float64) * _SCALES).tolist()), 0

    def _shown(self) -> NDArray[np.float32]:
        shown: NDArray[np.float32] = (np.asarray(self.state) / _SCALES).astype(np.float32)
        return shown
