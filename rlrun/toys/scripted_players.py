"""Scripted policies of the toy worlds and of CartPole: callables from an observation to an action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import ACTION_MASK


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


class TribeForager:
    """Peaceful forager policy of `Tribes`: walks to the nearest water or food that it sees, whichever it has less of.

    It walks in a random direction if it sees none, and in one of five steps, so that no lake stops it.

    Args:
        seed: Seed of the random actions.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def __call__(self, observation: Mapping[str, Any]) -> NDArray[np.int64]:
        """Returns the agent's move, and no strike, [2]."""
        food, water, _, _ = observation["self"]
        wanted = observation["window"][int(water < food)]
        places = np.argwhere(wanted) - len(wanted) // 2
        move = int(self._generator.integers(1, 5))
        if len(places):
            away = places[np.abs(places).sum(1).argmin()]
            if np.abs(away).sum() <= (water < food):
                move = 0
            elif self._generator.random() < 0.8:
                axis = int(np.abs(away[1]) > np.abs(away[0]))
                move = 1 + 2 * axis + int(away[axis] > 0)
        return np.array([move, 0])
