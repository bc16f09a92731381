"""Box: independent normal variables, in units of the bounds where both are finite."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from typing_extensions import override

from rlrun.policy.action_spaces.action_space import Actions, ActionSpace, Distribution, Floats
from rlrun.policy.action_spaces.box_scale import BoxScale

if TYPE_CHECKING:
    from torch import Tensor

LOG_2PI = math.log(2 * math.pi)


class GaussianBoxActions(ActionSpace):
    """Unbounded actions; outputs are means and log standard deviations side by side.

    -1 and 1 stand for the lower and the upper bound of a bounded coordinate. What lies beyond is clipped on its way to
    the env only, so that log-probabilities stay those of the sample.

    Args:
        space: The env's space.
    """

    action_dtype = np.float32

    def __init__(self, space: gymnasium.spaces.Box) -> None:
        self.scale = BoxScale(space)
        self.size = self.num_noise = self.num_log_stds = self.scale.size
        self.num_outputs = 2 * self.size
        self.action_shape = (self.size,)

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws standard normal noise."""
        return generator.standard_normal((*shape, self.size), np.float32)

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Shifts and scales the noise."""
        return outputs[..., : self.size] + np.exp(outputs[..., self.size :]) * noise

    @override
    def mode(self, outputs: Floats) -> Actions:
        """Takes the means."""
        return outputs[..., : self.size].copy()

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Adds the coordinates' log-densities up."""
        means, log_stds = outputs[..., : self.size], outputs[..., self.size :]
        scaled = (actions - means) * np.exp(-log_stds)
        result: Floats = (-0.5 * (scaled * scaled + LOG_2PI) - log_stds).sum(-1, dtype=np.float32)
        return result

    @override
    def to_env(self, actions: Actions) -> Actions:
        """Goes from units of the bounds to the env's own, and clips."""
        return self.scale.to_env(actions)

    @override
    def from_env(self, actions: Actions) -> Actions:
        """Goes to units of the bounds."""
        return self.scale.from_env(actions)

    def distribution(self, outputs: Tensor) -> DiagonalGaussian:
        """Returns the distribution in torch, for the learner."""
        return DiagonalGaussian(outputs)


class DiagonalGaussian(Distribution):
    """Independent normal variables (torch).

    Args:
        outputs: Means and log standard deviations side by side, [..., 2 * A].
    """

    def __init__(self, outputs: Tensor) -> None:
        self.outputs = outputs
        self.means, self.log_stds = outputs.chunk(2, -1)

    @override
    def like(self, outputs: Tensor) -> DiagonalGaussian:
        """Returns the same over other outputs."""
        return DiagonalGaussian(outputs)

    @override
    def kl(self, other: DiagonalGaussian) -> Tensor:
        """Returns the sum of the variables' divergences."""
        scale = (2 * (self.log_stds - other.log_stds)).exp()
        shift = (self.means - other.means) * (-other.log_stds).exp()
        return (other.log_stds - self.log_stds + 0.5 * (scale + shift * shift - 1)).sum(-1)

    @override
    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the log-density of actions [..., A], in the policy's own scale."""
        scaled = (actions - self.means) * (-self.log_stds).exp()
        return (-0.5 * (scaled * scaled + LOG_2PI) - self.log_stds).sum(-1)

    @override
    def entropy(self) -> Tensor:
        """Returns the differential entropy."""
        return (self.log_stds + 0.5 * (1 + LOG_2PI)).sum(-1)
