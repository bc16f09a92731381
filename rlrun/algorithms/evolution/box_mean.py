"""Deterministic actions in a Box, in units of the bounds where both are finite (NumPy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.policy.action_spaces.action_space import Actions, ActionSpace, Floats
from rlrun.engine.policy.action_spaces.box_scale import BoxScale


class BoxMeanActions(ActionSpace):
    """Deterministic actions in a Box, given by outputs [..., D], and clipped to the bounds when sent to the env.

    Args:
        scale: Affine map between the env's Box and [-1, 1].
    """

    action_dtype = np.float32
    is_deterministic = True

    def __init__(self, scale: BoxScale) -> None:
        self.scale = scale
        self.num_outputs = scale.size
        self.action_shape = (scale.size,)

    @override
    def mode(self, outputs: Floats) -> Actions:
        return outputs

    @override
    def to_env(self, actions: Actions) -> Actions:
        """Scales actions to the env's units, and clips them."""
        return self.scale.to_env(actions)

    def overshoots(self, actions: Actions) -> NDArray[np.float64]:
        """Mean squared overshoot [N] of actions [N, D]: the distance of coordinates beyond their bounds, else 0.

        Distances are in units of half the coordinate's range.
        """
        scale = self.scale
        own = actions.astype(np.float64) * scale.half_range + scale.middle
        beyond = own - np.clip(own, scale.low, scale.high)
        units = np.divide(beyond, scale.half_range, out=np.zeros_like(own), where=scale.half_range > 0)
        mean: NDArray[np.float64] = np.square(units).mean(-1)
        return mean

    @override
    def from_env(self, actions: Actions) -> Actions:
        """Scales env actions to units of the bounds."""
        return self.scale.from_env(actions)
