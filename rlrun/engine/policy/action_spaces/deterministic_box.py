"""Deterministic policies in a bounded Box, rescaled to [-1, 1], with additive action noise (NumPy)."""

from __future__ import annotations

import gymnasium
import numpy as np
from typing_extensions import override

from rlrun.engine.policy.action_spaces.action_space import Actions, ActionSpace, Floats
from rlrun.engine.policy.action_spaces.box_scale import BoxScale


class DeterministicBoxActions(ActionSpace):
    """Deterministic actions in [-1, 1], computed from outputs [..., D] without sampling.

    Args:
        scale: Rescaling of the env's action space, which is fully bounded.
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
        """Samples standard normal noise, [*shape, D]."""
        return generator.standard_normal((*shape, self.size), np.float32)

    @override
    def mode(self, outputs: Floats) -> Actions:
        """Deterministic actions in [-1, 1], [..., D]."""
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
