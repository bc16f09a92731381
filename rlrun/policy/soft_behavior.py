"""How soft policies act: actions drawn from what the actor puts out (NumPy)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.policy.action_space import BoxScale
from rlrun.policy.actor_behavior import ActorBehavior
from rlrun.policy.deterministic_behavior import normal_and_uniform

Floats = NDArray[np.float32]

LOG_STD_BOUNDS = (-20.0, 2.0)
"""Between which an actor's log standard deviations are kept."""


class SquashedActions:
    """Normal variables squashed by tanh into -1..1, in units of the bounds."""

    action_dtype = np.float32

    def __init__(self, box: BoxScale) -> None:
        """Takes the bounds."""
        self.box = box
        self.action_shape = (box.size,)

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws standard normal numbers and, behind them, numbers from -1 to 1, [*shape, 2 * D]."""
        return normal_and_uniform(generator, (*shape, self.box.size))

    def sample(self, outputs: Floats, noise: Floats) -> Floats:
        """Draws actions from means and log standard deviations side by side, [B, 2 * D]."""
        size = self.box.size
        stds = np.exp(np.clip(outputs[..., size:], *LOG_STD_BOUNDS))
        actions: Floats = np.tanh(outputs[..., :size] + stds * noise[..., :size])
        return actions

    def mode(self, outputs: Floats) -> Floats:
        """Returns what the means become."""
        return np.tanh(outputs[..., : self.box.size])

    def uniform(self, noise: Floats) -> Floats:
        """Returns any actions within the bounds."""
        return noise[..., self.box.size :]

    def to_env(self, actions: Floats) -> NDArray[Any]:
        """Goes to the env's own bounds."""
        return self.box.to_env(actions)


class SoftBehavior(ActorBehavior):
    """Draws actions from the actor's distribution."""

    def explored(self, outputs: Floats, noise: Floats, starts: NDArray[np.bool_]) -> NDArray[Any]:
        """Draws the actions of a step."""
        return self.model.sample(outputs, noise)
