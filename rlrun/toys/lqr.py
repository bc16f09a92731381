"""Linear-quadratic regulator (LQR) with known optimal policy."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

DT_S = 0.1
"""Duration of a step in seconds."""

DYNAMICS = np.array([[1.0, DT_S], [0.0, 1.0]])
"""Matrix A of the dynamics: maps position and velocity to those after a step."""

FORCE = np.array([0.0, DT_S])
"""Vector B of the dynamics: the effect of a unit force on position and velocity."""

FORCE_COST = 0.1
"""Cost of the squared force, relative to squared position and velocity."""

HORIZON = 100
"""Number of steps in an episode."""

BEST_COST = 6.263
"""Mean cost of an episode under the optimal policy, by the Riccati equation."""

Vector = NDArray[np.float32]


class DoubleIntegrator(gymnasium.Env[Vector, Vector]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Double integrator LQR: a force u drives a mass, x = (position, velocity), to the origin in 100 steps of 0.1 s.

    A step costs x^T x + 0.1 u^2. Initial states are uniform in [-1, 1]^2. The optimal policy is linear, with a mean
    cost of 6.263 per episode.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-10.0, 10.0, (1,), np.float32)
        self._state = np.zeros(2)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Vector, dict[str, Any]]:
        """Samples the initial state uniformly from [-1, 1]^2."""
        super().reset(seed=seed)
        self._state, self._steps = self.np_random.uniform(-1.0, 1.0, 2), 0
        return self._state.astype(np.float32), {}

    def step(self, action: Vector) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Applies a force to the mass for one step."""
        force = float(action[0])
        cost = float(self._state @ self._state) + FORCE_COST * force * force
        self._state = DYNAMICS @ self._state + FORCE * force
        self._steps += 1
        return self._state.astype(np.float32), -cost, False, self._steps >= HORIZON, {}
