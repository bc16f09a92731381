"""Scripted policies of the toy worlds and of CartPole: callables from an observation to an action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.action_masks import ACTION_MASK


class RandomLegal:
    """Uniform random policy over legal actions.

    Args:
        seed: Seed of the random actions.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def __call__(self, observation: Mapping[str, Any]) -> int:
        """Samples a legal action uniformly.

        Raises:
            ValueError: The observation holds no action mask.
        """
        if not isinstance(observation, Mapping) or ACTION_MASK not in observation:
            raise ValueError(f"RandomLegal moves by the {ACTION_MASK} of a Dict observation, and there is none")
        return int(self._generator.choice(np.flatnonzero(observation[ACTION_MASK])))


def balance_pole(observation: NDArray[np.float32]) -> int:
    """Balances CartPole for ever: pushes the cart to where the pole falls, by a linear rule of position and speed."""
    position, velocity, angle, angular_velocity = observation.tolist()
    return int(angle + 0.4 * angular_velocity + 0.02 * position + 0.08 * velocity > 0)


class GreedyForager:
    """Greedy forager policy: moves to the nearest visible food, or randomly without any.

    Args:
        seed: Seed of the random actions.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def __call__(self, observation: Mapping[str, Any]) -> int:
        """Returns the forager's action: stay, up, down, left or right."""
        window = observation["window"]
        food = np.argwhere(window) - len(window) // 2
        if not len(food):
            return int(self._generator.integers(1, 5))
        down, right = food[np.abs(food).sum(1).argmin()].tolist()
        if down == right == 0:
            return 0
        if abs(down) > abs(right):
            return 2 if down > 0 else 1
        return 4 if right > 0 else 3
