"""Deterministic actions in a bounded Box, which the policy sees rescaled to [-1, 1], with additive noise (NumPy)."""

from __future__ import annotations

import gymnasium
import numpy as np
from typing_extensions import override

from rlrun.engine.policy.action_spaces.action_space import Actions, ActionSpace, Floats
from rlrun.engine.policy.action_spaces.box_scale import BoxScale


class DeterministicBoxActions(ActionSpace):
    """Action space in which network outputs [..., D] are the actions themselves, rescaled to [-1, 1].

    Args:
        scale: Map between [-1, 1] and the finite bounds of the env's action space.
        squashes: Whether tanh is applied to the outputs; without it, outputs must already lie in [-1, 1].
    """

    action_dtype = np.float32
    is_deterministic = True

    def __init__(self, scale: BoxScale, *, squashes: bool = True) -> None:
        self.scale = scale
        self.squashes = squashes
        self.size = self.num_outputs = scale.size
        self.action_shape = (self.size,)
        self.own_space = gymnasium.spaces.Box(-1.0, 1.0, self.action_shape)

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Samples standard normal noise for actions with D coordinates, [*shape, D]."""
        return generator.standard_normal((*shape, self.size), np.float32)

    @override
    def mode(self, outputs: Floats) -> Actions:
        """Actions in [-1, 1] computed from network outputs [..., D]: their tanh, or the outputs themselves."""
        return np.tanh(outputs) if self.squashes else outputs

    def shifted(self, outputs: Floats, by: Floats) -> Actions:
        """Adds noise [B, D] to the deterministic actions and clips the sum to [-1, 1]."""
        shifted: Floats = self.mode(outputs) + by
        return shifted.clip(-1, 1)

    @override
    def to_env(self, actions: Actions) -> Actions:
        """Rescales actions [N, D] from [-1, 1] to the env's bounds."""
        return self.scale.to_env(actions)

    @override
    def from_env(self, actions: Actions) -> Actions:
        """Rescales env actions [N, *shape] to [-1, 1] and clips them, [N, D]."""
        return self.scale.from_env(actions).clip(-1, 1)
