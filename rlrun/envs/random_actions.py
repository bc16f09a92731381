"""Actions each as likely as any other: what a policy is compared with, and what an env is tried with."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Discrete, MultiDiscrete, Tuple
from numpy.typing import NDArray

from rlrun.data.action_masks import ACTION_MASK, has_action_mask, masked_choices
from rlrun.data.tree import leaves
from rlrun.envs.spaces import Spaces, empty_batch, row_writer

Tree = Any


class RandomActions:
    """Draws actions uniformly, of the allowed ones where observations hold an action mask.

    Numbers without bounds are drawn as Gymnasium draws them: from a normal or exponential distribution.

    Args:
        spaces: Observation and action space.
        seed: Seed of the draws.
    """

    def __init__(self, spaces: Spaces, seed: int) -> None:
        self._space: gymnasium.Space[Any] = copy.deepcopy(spaces.action)
        self._space.seed(seed)
        self._is_masked = has_action_mask(spaces.observation)
        self._cuts = np.cumsum(masked_choices(spaces.action))[:-1] if self._is_masked else ()

    def reseed(self, seed: int) -> None:
        """Begins to draw anew."""
        self._space.seed(seed)

    def draw(self, observations: Tree) -> Tree:
        """Returns actions for the env, leaves [B, ...], for observations [B, ...]."""
        slots = len(leaves(observations)[0])
        actions = empty_batch(self._space, slots)
        write = row_writer(self._space, actions)
        for slot in range(slots):
            write(slot, self._space.sample(self._mask(observations, slot) if self._is_masked else None))
        return actions

    def draw_one(self, observation: Tree) -> Any:
        """Returns an action for one observation [...], in the env's own terms."""
        return self._space.sample(self._as_mask(observation[ACTION_MASK]) if self._is_masked else None)

    def _mask(self, observations: Tree, slot: int) -> Any:
        return self._as_mask(observations[ACTION_MASK][slot])

    def _as_mask(self, allowed: Any) -> Any:
        """Returns a mask as Gymnasium's spaces take it."""
        return _space_mask(self._space, iter(np.split(np.asarray(allowed, np.int8), self._cuts)))


def _space_mask(space: gymnasium.Space[Any], choices: Iterator[NDArray[np.int8]]) -> Any:
    """Returns the masks of a space's choices as Gymnasium's spaces take them; None for parts that have none."""
    match space:
        case Discrete():
            return next(choices)
        case MultiDiscrete():
            return _masks_of(space.nvec, choices)
        case Tuple():
            return tuple(_space_mask(part, choices) for part in space)
        case Dict():
            return {key: _space_mask(part, choices) for key, part in space.items()}
    return None


def _masks_of(sizes: NDArray[Any], choices: Iterator[NDArray[np.int8]]) -> Any:
    """Returns the masks of choices with so many values, in tuples of the sizes' shape."""
    return tuple(_masks_of(part, choices) for part in sizes) if np.ndim(sizes) else next(choices)
