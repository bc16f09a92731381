"""Deep Sea (bsuite): hard exploration, with a single reward after a long sequence of slightly penalized actions."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Grid = NDArray[np.float32]


class DeepSea(gymnasium.Env[Grid, int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Deep Sea grid: the agent descends one row per step, left or right; the only reward is in the last corner.

    An episode takes N steps, the setting `size`. A step to the right costs 0.01 / N. The last of N steps to the right
    is rewarded by 1, so the optimal return is 0.99; any other policy gets at most 0. The action to the right is sampled
    for each cell by `mapping_seed`, and fixed. A random policy finds the treasure in one of 2^N episodes.

    Observations [N, N] are 1 in the agent's cell and 0 elsewhere, and all 0 after the last step. The info of the last
    step holds `treasure`: 1 if the treasure was found, else 0.

    Source:
        Osband et al., "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568, without noise.
    """

    def __init__(self, size: int = 10, mapping_seed: int = 0) -> None:
        """Creates the env; `mapping_seed` determines the action mapping of each cell."""
        self.observation_space = spaces.Box(0.0, 1.0, (size, size))
        self.action_space = spaces.Discrete(2)
        self._size = size
        self._right = np.random.Generator(np.random.Philox(mapping_seed)).integers(0, 2, (size, size))
        self._row = self._column = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Grid, dict[str, Any]]:
        """Starts an episode in the upper left corner."""
        super().reset(seed=seed)
        self._row = self._column = 0
        return self._show(), {}

    def step(self, action: int) -> tuple[Grid, float, bool, bool, dict[str, Any]]:
        """Moves one row down, and one column left or right."""
        goes_right = action == self._right[self._row, self._column]
        is_found = bool(goes_right and self._column == self._size - 1)
        reward = float(is_found) - (0.01 / self._size if goes_right else 0.0)
        self._column = min(max(self._column + (1 if goes_right else -1), 0), self._size - 1)
        self._row += 1
        is_over = self._row == self._size
        return self._show(), reward, is_over, False, {"treasure": float(is_found)} if is_over else {}

    def _show(self) -> Grid:
        grid = np.zeros((self._size, self._size), np.float32)
        if self._row < self._size:
            grid[self._row, self._column] = 1.0
        return grid
