"""Gaussian actions in a bounded Box, clipped to the bounds (NumPy)."""

from __future__ import annotations

import gymnasium
import numpy as np
from typing_extensions import override

from rlrun.engine.policy.action_spaces.action_space import Actions, Floats
from rlrun.engine.policy.action_spaces.box import GaussianBoxActions


class BoundedGaussianActions(GaussianBoxActions):
    """Diagonal Gaussian actions that are clipped to [-1, 1], the rescaled bounds of the env's actions.

    Critics thus see only actions that the env can take. Densities are those of the Gaussian before clipping, so
    recorded actions at a bound have finite densities, unlike with a tanh.

    Args:
        space: The env's action space, with finite bounds.
    """

    def __init__(self, space: gymnasium.spaces.Box) -> None:
        super().__init__(space)
        self.own_space = gymnasium.spaces.Box(-1.0, 1.0, self.action_shape)

    @override
    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        return super().sample(outputs, noise).clip(-1, 1)

    @override
    def mode(self, outputs: Floats) -> Actions:
        return np.clip(super().mode(outputs), -1, 1)

    @override
    def from_env(self, actions: Actions) -> Actions:
        return super().from_env(actions).clip(-1, 1)
