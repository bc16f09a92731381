"""Scripted agents of the worlds in this room: classes called with an observation, which return an action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlrun.data.action_masks import ACTION_MASK


class RandomLegal:
    """Takes any action that the action mask allows, each as likely as the others.

    Args:
        seed: Seed of what it draws.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def __call__(self, observation: Mapping[str, Any]) -> int:
        """Returns an action.

        Raises:
            ValueError: The observation holds no action mask.
        """
        if not isinstance(observation, Mapping) or ACTION_MASK not in observation:
            raise ValueError(f"RandomLegal moves by the {ACTION_MASK} of a Dict observation, and there is none")
        return int(self._generator.choice(np.flatnonzero(observation[ACTION_MASK])))


class GreedyForager:
    """Goes to the nearest food that it sees, and anywhere where it sees none.

    Args:
        seed: Seed of what it draws.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def __call__(self, observation: Mapping[str, Any]) -> int:
        """Returns an action of a forager: stay, up, down, left, right."""
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
