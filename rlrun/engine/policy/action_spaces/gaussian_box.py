"""Diagonal Gaussian action distribution for a Box, with bounded coordinates rescaled to [-1, 1]."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from typing_extensions import override

from rlrun.engine.policy.action_spaces.action_space import Actions, ActionSpace, Distribution, Floats
from rlrun.engine.policy.action_spaces.box_scale import BoxScale

if TYPE_CHECKING:
    from torch import Tensor

LOG_2PI = math.log(2 * math.pi)


class GaussianBoxActions(ActionSpace):
    """Diagonal Gaussian actions without squashing; outputs are concatenated means and log standard deviations.

    The bounds of a bounded coordinate map to -1 and 1. Actions are clipped only by `to_env`, so log-probabilities refer
    to the unclipped sample.

    Args:
        space: The env's action space.
    """

    action_dtype = np.float32

    def __init__(self, space: gymnasium.spaces.Box) -> None:
        self.scale = BoxScale(space)
        self.size = self.num_noise = self.num_log_stds = self.scale.size
        self.num_outputs = 2 * self.size
        self.action_shape = (self.size,)

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Samples standard normal noise for actions with D coordinates, [*shape, D]."""
        return generator.standard_normal((*shape, self.size), np.float32)

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Samples actions mean + std * noise from network outputs and standard normal noise."""
        return outputs[..., : self.size] + np.exp(outputs[..., self.size :]) * noise

    @override
    def mode(self, outputs: Floats) -> Actions:
        """Most probable actions: the means of the Gaussians."""
        return outputs[..., : self.size].copy()

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Log-densities of actions before clipping, summed over the coordinates of each action."""
        means, log_stds = outputs[..., : self.size], outputs[..., self.size :]
        scaled = (actions - means) * np.exp(-log_stds)
        result: Floats = (-0.5 * (scaled * scaled + LOG_2PI) - log_stds).sum(-1, dtype=np.float32)
        return result

    @override
    def to_env(self, actions: Actions) -> Actions:
        """Rescales N actions from [-1, 1] to the env's bounds, and clips them."""
        return self.scale.to_env(actions)

    @override
    def from_env(self, actions: Actions) -> Actions:
        """Rescales N env actions to flat vectors with bounds -1 and 1."""
        return self.scale.from_env(actions)

    def distribution(self, outputs: Tensor) -> DiagonalGaussian:
        """Creates diagonal Gaussian distributions from network outputs, for losses in torch."""
        return DiagonalGaussian(outputs)


class DiagonalGaussian(Distribution):
    """Diagonal Gaussian distributions over continuous actions (torch).

    Args:
        outputs: Means and log standard deviations of D coordinates, concatenated, [..., 2 * D].
    """

    def __init__(self, outputs: Tensor) -> None:
        self.outputs = outputs
        self.means, self.log_stds = outputs.chunk(2, -1)

    @override
    def like(self, outputs: Tensor) -> DiagonalGaussian:
        """Creates Gaussian distributions from other means and log standard deviations."""
        return DiagonalGaussian(outputs)

    @override
    def kl(self, other: DiagonalGaussian) -> Tensor:
        """KL divergence KL(self || other) of each distribution in the batch, summed over coordinates."""
        scale = (2 * (self.log_stds - other.log_stds)).exp()
        shift = (self.means - other.means) * (-other.log_stds).exp()
        return (other.log_stds - self.log_stds + 0.5 * (scale + shift * shift - 1)).sum(-1)

    @override
    def log_prob(self, actions: Tensor) -> Tensor:
        """Log-density of one action, rescaled to [-1, 1], per distribution in the batch; summed over coordinates."""
        scaled = (actions - self.means) * (-self.log_stds).exp()
        return (-0.5 * (scaled * scaled + LOG_2PI) - self.log_stds).sum(-1)

    @override
    def entropy(self) -> Tensor:
        """Differential entropy of each distribution in the batch, summed over coordinates."""
        return (self.log_stds + 0.5 * (1 + LOG_2PI)).sum(-1)
