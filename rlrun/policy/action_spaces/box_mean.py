"""Box: one action for an observation, in units of the bounds where both are finite (NumPy)."""

from __future__ import annotations

import numpy as np

from rlrun.policy.action_spaces.action_space import Actions, ActionSpace, Floats
from rlrun.policy.action_spaces.box_scale import BoxScale


class BoxMeanActions(ActionSpace):
    """Actions that outputs [..., D] say; what lies beyond the bounds is clipped on its way to the env.

    Args:
        scale: The env's space.
    """

    action_dtype = np.float32

    def __init__(self, scale: BoxScale) -> None:
        self.scale = scale
        self.num_outputs = scale.size
        self.action_shape = (scale.size,)

    def mode(self, outputs: Floats) -> Actions:
        """Returns the action."""
        return outputs

    def to_env(self, actions: Actions) -> Actions:
        """Goes from units of the bounds to the env's own, and clips."""
        return self.scale.to_env(actions)

    def from_env(self, actions: Actions) -> Actions:
        """Goes to units of the bounds."""
        return self.scale.from_env(actions)
