"""Envs with known returns of greedy and sampled actions."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

ALWAYS = np.ones(1, np.float32)
"""The only observation of both envs."""


class AliasedCorridor(gymnasium.Env[np.ndarray, int]):
    """Short corridor with switched actions (Sutton and Barto, 2nd edition, example 13.1): three cells that look alike.

    Each step costs 1, and the goal is to the right of the third cell. In the second cell, left and right are switched,
    so a policy that always takes the same action never reaches the goal.

    Args:
        most: T, steps after which an episode is truncated.
    """

    def __init__(self, most: int = 60) -> None:
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,))
        self.action_space = gymnasium.spaces.Discrete(2)
        self._most = most

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._cell = self._steps = 0
        return ALWAYS, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        goes_right = (action == 1) != (self._cell == 1)
        self._cell = self._cell + 1 if goes_right else max(self._cell - 1, 0)
        self._steps += 1
        return ALWAYS, -1.0, self._cell == 3, self._steps == self._most, {}


class Lottery(gymnasium.Env[np.ndarray, int]):
    """Episodes of one step. The reward depends only on the episode's seed."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,))
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return ALWAYS, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return ALWAYS, float(self.np_random.random()), True, False, {}


def greedy_return(most: int) -> float:
    """Return of greedy actions in the corridor, which never reach the goal."""
    return -float(most)


def sampled_return(right: float, most: int) -> float:
    """Expected return in the corridor of a policy that goes right with one probability.

    It is minus the expected number of steps: the sum over t < T of the probability that the goal is not reached yet.
    """
    left = 1.0 - right
    moves = np.array([[left, right, 0.0], [right, 0.0, left], [0.0, left, 0.0]])
    under_way, steps = np.array([1.0, 0.0, 0.0]), 0.0
    for _ in range(most):
        steps += under_way.sum()
        under_way = under_way @ moves
    return -steps
