"""Tanh-squashed Gaussian action distribution for a bounded Box, rescaled from [-1, 1].

Source:
    Haarnoja et al., arXiv:1801.01290, appendix C.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from typing_extensions import override

from rlrun.engine.policy.action_spaces.action_space import Actions, ActionSpace, Floats
from rlrun.engine.policy.action_spaces.box import LOG_2PI, BoxScale

if TYPE_CHECKING:
    from torch import Tensor

LOG_STD_BOUNDS = (-20.0, 2.0)
"""Clipping bounds of the actor's log standard deviations."""

SMOOTH_MIDDLE, SMOOTH_HALF = -4.0, 6.0
"""Center and half-width of the range of smoothly bounded log standard deviations, -10 to 2."""

EDGE = 1 - 2.0**-22
"""Clipping bound of actions before atanh: in float32, larger magnitudes have no preimage under tanh."""


class SquashedBoxActions(ActionSpace):
    """Actions sampled as tanh of a Gaussian; network outputs are the means and log standard deviations before the tanh.

    Args:
        scale: Map between [-1, 1] and the finite bounds of the env's action space.
        smooth_log_stds: Whether log standard deviations are squashed to [-10, 2] by a tanh, instead of clipped to
            `LOG_STD_BOUNDS` (FlashSAC, arXiv:2604.04539).
    """

    action_dtype = np.float32

    def __init__(self, scale: BoxScale, *, smooth_log_stds: bool = False) -> None:
        self.scale = scale
        self.smooth_log_stds = smooth_log_stds
        self.size = scale.size
        self.num_outputs, self.num_noise = 2 * self.size, self.size
        self.action_shape = (self.size,)
        self.own_space = gymnasium.spaces.Box(-1.0, 1.0, self.action_shape)

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Samples standard normal noise for actions with D coordinates, [*shape, D]."""
        return generator.standard_normal((*shape, self.size), np.float32)

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Samples actions tanh(mean + std * noise) from network outputs and standard normal noise."""
        means, stds = self._parts(outputs)
        actions: Floats = np.tanh(means + stds * noise)
        return actions

    @override
    def mode(self, outputs: Floats) -> Actions:
        """Returns greedy actions: tanh of the Gaussians' means."""
        return np.tanh(outputs[..., : self.size])

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Returns log-densities of actions in [-1, 1], summed over coordinates; actions at a bound are moved inward."""
        means, stds = self._parts(outputs)
        drawn = np.arctanh(actions.clip(-EDGE, EDGE))
        noise = (drawn - means) / stds
        stretched = 2 * (math.log(2) - drawn - np.logaddexp(0, -2 * drawn))
        result: Floats = (-0.5 * (noise * noise + LOG_2PI) - np.log(stds) - stretched).sum(-1, dtype=np.float32)
        return result

    def _parts(self, outputs: Floats) -> tuple[Floats, Floats]:
        means, raw = outputs[..., : self.size], outputs[..., self.size :]
        smooth = self.smooth_log_stds
        return means, np.exp(SMOOTH_MIDDLE + SMOOTH_HALF * np.tanh(raw) if smooth else np.clip(raw, *LOG_STD_BOUNDS))

    @override
    def to_env(self, actions: Actions) -> Actions:
        """Rescales actions [N, D] from [-1, 1] to the env's bounds."""
        return self.scale.to_env(actions)

    @override
    def from_env(self, actions: Actions) -> Actions:
        """Rescales env actions [N, *shape] to [-1, 1] and clips them, [N, D]."""
        return self.scale.from_env(actions).clip(-1, 1)

    def distribution(self, outputs: Tensor) -> SquashedGaussian:
        """Creates tanh-squashed Gaussian distributions from network outputs, for losses in torch."""
        return SquashedGaussian(outputs, smooth_log_stds=self.smooth_log_stds)


class SquashedGaussian:
    """Tanh-squashed diagonal Gaussian distributions over actions; their entropy has no closed form (torch).

    The logarithm of tanh's derivative 1 - tanh(u)^2 is computed as 2 (log 2 - u - softplus(-2 u)). This form remains
    exact where tanh(u) rounds to 1.

    Args:
        outputs: Means and log standard deviations of D coordinates, concatenated, [..., 2 * D].
        smooth_log_stds: Whether log standard deviations are bounded by a tanh instead of clipped.
    """

    def __init__(self, outputs: Tensor, *, smooth_log_stds: bool = False) -> None:
        self.outputs = outputs
        self.means, raw = outputs.chunk(2, -1)
        self.log_stds = SMOOTH_MIDDLE + SMOOTH_HALF * raw.tanh() if smooth_log_stds else raw.clamp(*LOG_STD_BOUNDS)

    def sample_and_log_prob(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Returns reparametrized samples in [-1, 1], computed from standard normal noise, and their log-densities."""
        drawn = self.means + self.log_stds.exp() * noise
        densities = self._densities(drawn, noise)
        return drawn.tanh(), densities

    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the log-density of one action per distribution in the batch; actions at a bound are moved inward."""
        drawn = actions.clamp(-EDGE, EDGE).atanh()
        return self._densities(drawn, (drawn - self.means) * (-self.log_stds).exp())

    def kl(self, other: SquashedGaussian) -> Tensor:
        """Returns the KL divergence KL(self || other) of each distribution, which is invariant under the tanh."""
        scale = (2 * (self.log_stds - other.log_stds)).exp()
        shift = (self.means - other.means) * (-other.log_stds).exp()
        return (other.log_stds - self.log_stds + 0.5 * (scale + shift * shift - 1)).sum(-1)

    def _densities(self, drawn: Tensor, noise: Tensor) -> Tensor:
        from torch.nn.functional import softplus

        stretched = 2 * (math.log(2) - drawn - softplus(-2 * drawn))
        return (-0.5 * (noise * noise + LOG_2PI) - self.log_stds - stretched).sum(-1)
