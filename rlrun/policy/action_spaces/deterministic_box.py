"""Bounded Box: one action for an observation, in units of the bounds, with noise around it (NumPy)."""

from __future__ import annotations

import gymnasium
import numpy as np
from typing_extensions import override

from rlrun.policy.action_spaces.action_space import Actions, ActionSpace, Floats
from rlrun.policy.action_spaces.box_scale import BoxScale


class DeterministicBoxActions(ActionSpace):
    """Actions between -1 and 1 that outputs [..., D] say, not draw.

    Args:
        scale: The env's space, all of it bounded.
        squashes: Whether tanh brings outputs between -1 and 1; they lie there by themselves otherwise.
    """

    action_dtype = np.float32

    def __init__(self, scale: BoxScale, *, squashes: bool = True) -> None:
        self.scale = scale
        self.squashes = squashes
        self.size = self.num_outputs = scale.size
        self.action_shape = (self.size,)
        self.own_space = gymnasium.spaces.Box(-1.0, 1.0, self.action_shape)

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws standard normal numbers, [*shape, D]."""
        return generator.standard_normal((*shape, self.size), np.float32)

    @override
    def mode(self, outputs: Floats) -> Actions:
        """Returns the action."""
        return np.tanh(outputs) if self.squashes else outputs

    def shifted(self, outputs: Floats, by: Floats) -> Actions:
        """Shifts the actions [B, D] and keeps them within the bounds."""
        shifted: Floats = self.mode(outputs) + by
        return shifted.clip(-1, 1)

    @override
    def to_env(self, actions: Actions) -> Actions:
        """Goes to the env's own bounds."""
        return self.scale.to_env(actions)

    @override
    def from_env(self, actions: Actions) -> Actions:
        """Goes to units of the bounds."""
        return self.scale.from_env(actions).clip(-1, 1)
