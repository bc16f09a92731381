"""MountainCar with a sparse reward at the goal, for algorithms that learn from demonstrations."""

from __future__ import annotations

from typing import Any

from gymnasium.envs.classic_control.mountain_car import MountainCarEnv
from numpy.typing import NDArray


class SparseMountainCar(MountainCarEnv):  # type: ignore[misc]  # gymnasium is not type-checked
    """MountainCar-v0 with a sparse reward: 1 at the goal and 0 before, instead of -1 per step.

    The original reward of -1 per step drives exploration, since often visited states get lower values. The sparse
    reward does not: a random policy hardly ever reaches the goal within the 200 steps of an episode.
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
