"""Two-lane road: a constrained MDP with known optimal policy, in which the fast lane incurs costs."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

CALM_COST, BUSY_COST = 0.2, 1.0
"""Costs of a step in the fast lane, from a calm and from a busy cell."""


class TwoLanes(gymnasium.Env[NDArray[np.float32], int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Constrained MDP of a car on a ring road: one cell per step in the slow lane, two in the fast (costly) lane.

    Action 1 changes the lane before the step, action 0 stays. The reward is the number of cells driven. The info of
    each step holds its `cost`: 0 in the slow lane; in the fast lane 0.2 from a calm cell and 1 from a busy cell. Every
    second cell is busy. Episodes begin in the first cell, in the slow lane, and end after `episode_len` steps.

    Without a cost constraint the optimal policy stays in the fast lane. Under a cost constraint, the optimal return
    solves a linear programme over occupancy measures of states and actions (Altman, "Constrained Markov Decision
    Processes", 1999, chapter 3).

    Observations are the one-hot cell, the lane, and the elapsed fraction of the episode.
    """

    def __init__(self, num_cells: int = 5, episode_len: int = 10) -> None:
        """Creates the env."""
        self.observation_space = spaces.Box(0.0, 1.0, (num_cells + 2,))
        self.action_space = spaces.Discrete(2)
        self.num_cells = num_cells
        self.episode_len = episode_len
        self._cell = self._lane = self._elapsed = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts an episode in the first cell, in the slow lane."""
        super().reset(seed=seed)
        self._cell = self._lane = self._elapsed = 0
        return self._show(), {}

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Applies the lane choice, and advances one cell (slow lane) or two (fast lane)."""
        self._cell, self._lane, reward, cost = self.outcome(self._cell, self._lane, int(action))
        self._elapsed += 1
        return self._show(), reward, self._elapsed == self.episode_len, False, {"cost": cost}

    def outcome(self, cell: int, lane: int, action: int) -> tuple[int, int, float, float]:
        """Deterministic transition of an action: next cell and lane, reward and cost."""
        lane = lane ^ action
        cost = (BUSY_COST if cell % 2 else CALM_COST) if lane else 0.0
        return (cell + 1 + lane) % self.num_cells, lane, 1.0 + lane, cost

    def _show(self) -> NDArray[np.float32]:
        observation = np.zeros(self.num_cells + 2, np.float32)
        observation[self._cell] = 1.0
        observation[-2:] = self._lane, self._elapsed / self.episode_len
        return observation
