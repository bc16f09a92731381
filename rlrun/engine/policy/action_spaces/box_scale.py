"""Rescaling of Box actions to [-1, 1] by the bounds (NumPy)."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.action_spaces.action_space import Actions, Floats


class BoxScale:
    """Affine map between a Box's bounds and [-1, 1].

    Coordinates without two finite bounds are not rescaled.

    Args:
        space: The env's action space.

    Attributes:
        size: Number of coordinates.
        bounded: Mask of the coordinates with two finite bounds, [size].
    """

    def __init__(self, space: gymnasium.spaces.Box) -> None:
        self.space_shape, self.space_dtype = space.shape, space.dtype
        self.low, self.high = space.low.ravel(), space.high.ravel()
        self.size = len(self.low)
        self.bounded = np.isfinite(self.low) & np.isfinite(self.high)
        low, high = np.where(self.bounded, self.low, -1.0), np.where(self.bounded, self.high, 1.0)
        # Halved first: the sum or difference of bounds may be beyond what their type holds.
        self.middle, self.half_range = (low / 2 + high / 2).astype(np.float32), (high / 2 - low / 2).astype(np.float32)

    def to_env(self, actions: Actions) -> Actions:
        """Rescales vectors in [-1, 1], [N, size], to N actions of the Box's shape, and clips them to its bounds."""
        scaled = np.clip(actions * self.half_range + self.middle, self.low, self.high)
        result: Actions = scaled.astype(self.space_dtype).reshape(len(actions), *self.space_shape)
        return result

    def from_env(self, actions: Actions) -> Floats:
        """Rescales N env actions to vectors in [-1, 1], [N, size]; 0 where the lower bound equals the upper."""
        own = actions.reshape(len(actions), self.size).astype(np.float32)
        scaled: Floats = np.divide(
            own - self.middle, self.half_range, out=np.zeros_like(own), where=self.half_range > 0
        )
        return scaled


def bounded_box(space: gymnasium.Space[Any], family: str) -> BoxScale:
    """Creates the map between [-1, 1] and the bounds of a Box action space, all of which must be finite.

    Args:
        space: The action space.
        family: Name of the policy family that needs bounds, for the error message.

    Raises:
        UsageError: If the space is not a Box of floats with finite bounds.
    """
    if not isinstance(space, gymnasium.spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise UsageError(f"{family} acts in a Box of floats, not in {space}")
    scale = BoxScale(space)
    if not scale.bounded.all():
        raise UsageError(
            f"{family} needs finite bounds of every action, which are what -1 and 1 stand for; {space} has none for "
            f"{int((~scale.bounded).sum())} of {scale.size} numbers: have the env state bounds, or take an algorithm "
            "with unbounded actions, such as ppo"
        )
    return scale
