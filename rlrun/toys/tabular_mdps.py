"""Small finite MDPs: Deep Sea, a constrained two-lane road, and a task distribution of random MDPs."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

MDP = "mdp"
"""Name of the reset option with the seed of the MDP."""

FAMILY_DRAWS = 0x3D9
"""Seed key that makes MDPs independent of their episodes' random numbers."""

Doubles = NDArray[np.float64]

CALM_COST, BUSY_COST = 0.2, 1.0
"""Costs of a step in the fast lane, from a calm and from a busy cell."""

Grid = NDArray[np.float32]


class DeepSea(gymnasium.Env[Grid, int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Deep Sea grid: the agent descends one row per step, left or right; the only reward is in the last corner.

    An episode takes N steps, where N is the setting `size`. A step to the right costs 0.01 / N. The last of N steps to
    the right gives a reward of 1, so the optimal return is 0.99; any other policy gets at most 0. Which action leads to
    the right is sampled once for each cell, from the seed `mapping_seed`. A random policy finds the treasure in one
    episode in 2^N.

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


class TwoLanes(gymnasium.Env[NDArray[np.float32], int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Constrained MDP of a car on a ring road: one cell per step in the slow lane, two in the fast (costly) lane.

    Action 1 changes the lane before the step; action 0 stays in the lane. The reward is the number of cells driven. The
    info of each step holds its `cost`: 0 in the slow lane; in the fast lane 0.2 from a calm cell and 1 from a busy
    cell. Every second cell is busy. Episodes begin in the first cell, in the slow lane, and end after `episode_len`
    steps.

    Without a cost constraint the optimal policy stays in the fast lane. Under a cost constraint, the optimal return
    solves a linear program over occupancy measures of states and actions (Altman, "Constrained Markov Decision
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
        """Deterministic outcome of an action: next cell and lane, reward and cost."""
        lane = lane ^ action
        cost = (BUSY_COST if cell % 2 else CALM_COST) if lane else 0.0
        return (cell + 1 + lane) % self.num_cells, lane, 1.0 + lane, cost

    def _show(self) -> NDArray[np.float32]:
        observation = np.zeros(self.num_cells + 2, np.float32)
        observation[self._cell] = 1.0
        observation[-2:] = self._lane, self._elapsed / self.episode_len
        return observation


class RandomMDP(gymnasium.Env[int, int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Random MDP: mean rewards from N(1, 1), transitions from a flat Dirichlet distribution; rewards have unit noise.

    Episodes begin in state 0 and are truncated after `episode_len` steps. The reset option `mdp` is the seed of the
    MDP, 0 by default. The info of the last step holds `minus_regret`: the sum of the steps' mean rewards, minus the
    value of the optimal policy of this MDP.

    Args:
        num_states: Number of states.
        num_actions: Number of actions.
        episode_len: Steps of an episode.

    Source:
        Duan et al., arXiv:1611.02779, section 4.2.
    """

    def __init__(self, num_states: int = 10, num_actions: int = 5, episode_len: int = 10) -> None:
        self.observation_space = spaces.Discrete(num_states)
        self.action_space = spaces.Discrete(num_actions)
        self._sizes, self._episode_len = (num_states, num_actions), episode_len
        self._drawn = -1
        self._state = self._elapsed = 0
        self._credit_rewards = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Starts an episode; the reset option `mdp` is the seed of the MDP."""
        super().reset(seed=seed)
        wanted = int((options or {}).get(MDP, max(self._drawn, 0)))
        if wanted != self._drawn:
            self._draw(wanted)
        self._state, self._elapsed, self._credit_rewards = 0, 0, 0.0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Takes an action, and draws the reward and the next state."""
        mean = float(self._rewards[self._state, action])
        self._credit_rewards += mean
        self._elapsed += 1
        self._state = int(self._cumulated[self._state, action].searchsorted(self.np_random.random(), "right"))
        over = self._elapsed >= self._episode_len
        told = {"minus_regret": self._credit_rewards - self.best_return} if over else {}
        return self._state, mean + float(self.np_random.normal()), False, over, told

    def _draw(self, seed: int) -> None:
        states, _ = self._sizes
        generator = np.random.default_rng([seed, FAMILY_DRAWS])
        self._drawn = seed
        self._rewards: Doubles = generator.normal(1.0, 1.0, self._sizes)
        transitions = generator.dirichlet(np.ones(states), self._sizes)
        self._cumulated: Doubles = transitions.cumsum(-1)
        self._cumulated[..., -1] = 1.0  # exact, however the sum is rounded
        values = np.zeros(states)
        for _ in range(self._episode_len):
            values = (self._rewards + transitions @ values).max(-1)
        self.best_return = float(values[0])


def random_mdp(seed: int) -> dict[str, Any]:
    """Samples a task of `RandomMDP`: the reset option `mdp`, which is the seed of the MDP."""
    return {"reset_options": {MDP: int(np.random.default_rng([seed, FAMILY_DRAWS]).integers(2**31))}}
