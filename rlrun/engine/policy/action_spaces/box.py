"""Actions in a Box, rescaled to [-1, 1] by the bounds: Gaussian, or deterministic with additive noise (NumPy)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from typing_extensions import override

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.action_spaces.action_space import Actions, ActionSpace, Distribution, Floats

if TYPE_CHECKING:
    from torch import Tensor


LOG_2PI = math.log(2 * math.pi)


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
        # The bounds are halved first, since their sum or difference may overflow their dtype.
        self.middle, self.half_range = (low / 2 + high / 2).astype(np.float32), (high / 2 - low / 2).astype(np.float32)

    def to_env(self, actions: Actions) -> Actions:
        """Rescales N vectors [N, size] from [-1, 1] to actions of the Box's shape, clipped to the Box's bounds."""
        scaled: Actions = np.minimum(np.maximum(actions * self.half_range + self.middle, self.low), self.high)
        if scaled.dtype != self.space_dtype:
            scaled = scaled.astype(self.space_dtype)
        return scaled if self.space_shape == (self.size,) else scaled.reshape(len(actions), *self.space_shape)

    def from_env(self, actions: Actions) -> Floats:
        """Rescales N env actions from their bounds to [-1, 1], [N, size]; 0 for coordinates whose bounds are equal."""
        own = actions.reshape(len(actions), self.size).astype(np.float32)
        scaled: Floats = np.divide(
            own - self.middle, self.half_range, out=np.zeros_like(own), where=self.half_range > 0
        )
        return scaled


def bounded_box(space: gymnasium.Space[Any], family: str) -> BoxScale:
    """Creates the map between [-1, 1] and the bounds of a Box action space, which must all be finite.

    Args:
        space: The action space.
        family: Name of the policy family that needs bounds, for the error message.

    Raises:
        UsageError: If the space is not a Box of floats with finite bounds.
    """
    if not isinstance(space, gymnasium.spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise UsageError(f"{family} needs a Box action space of floats, but this env has {space}")
    scale = BoxScale(space)
    if not scale.bounded.all():
        raise UsageError(
            f"{family} needs finite bounds for all actions, but {int((~scale.bounded).sum())} of {scale.size} entries "
            f"of {space} are unbounded. Declare bounds in the env, or use an algorithm that supports unbounded "
            "actions, such as ppo"
        )
    return scale


class DeterministicBoxActions(ActionSpace):
    """Action space in which network outputs [..., D] are the actions themselves, on a scale from -1 to 1.

    Args:
        scale: Map between [-1, 1] and the finite bounds of the env's action space.
        squashes: Whether tanh is applied to the outputs; without it, outputs must already be in [-1, 1].
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
        """Returns actions in [-1, 1] for network outputs [..., D]: tanh(outputs) if `squashes` is set, else outputs."""
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


class GaussianBoxActions(ActionSpace):
    """Actions in a Box, sampled from a diagonal Gaussian without squashing by tanh.

    Network outputs are means and log standard deviations, concatenated.

    Coordinates with two finite bounds are rescaled so that the bounds map to -1 and 1. Actions are clipped only by
    `to_env`, so log-probabilities refer to the unclipped sample.

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
        """Returns the most probable actions: the means of the Gaussians."""
        return outputs[..., : self.size].copy()

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Returns the log-densities of actions before clipping, summed over the coordinates of each action."""
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
        """Flattens N env actions to vectors, and rescales bounded coordinates to [-1, 1]."""
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
        """Returns the KL divergence KL(self || other) of each distribution in the batch, summed over coordinates."""
        scale = (2 * (self.log_stds - other.log_stds)).exp()
        shift = (self.means - other.means) * (-other.log_stds).exp()
        return (other.log_stds - self.log_stds + 0.5 * (scale + shift * shift - 1)).sum(-1)

    @override
    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the log-density of one action (rescaled to [-1, 1]) per distribution, summed over coordinates."""
        scaled = (actions - self.means) * (-self.log_stds).exp()
        return (-0.5 * (scaled * scaled + LOG_2PI) - self.log_stds).sum(-1)

    @override
    def entropy(self) -> Tensor:
        """Returns the differential entropy of each distribution in the batch, summed over coordinates."""
        return (self.log_stds + 0.5 * (1 + LOG_2PI)).sum(-1)
