"""Bounded Box: normal variables squashed by tanh into -1..1, in units of the bounds.

Source:
    Haarnoja et al., arXiv:1801.01290, appendix C.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from typing_extensions import override

from rlrun.policy.action_spaces.action_space import Actions, ActionSpace, Floats
from rlrun.policy.action_spaces.box_scale import BoxScale
from rlrun.policy.action_spaces.gaussian_box import LOG_2PI

if TYPE_CHECKING:
    from torch import Tensor

LOG_STD_BOUNDS = (-20.0, 2.0)
"""Between which an actor's log standard deviations are kept."""

EDGE = 1 - 2.0**-22
"""Largest size of an action whose density is asked for: beyond it float32 has no number of which it is the tanh."""


class SquashedBoxActions(ActionSpace):
    """Actions between -1 and 1; outputs are means and log standard deviations side by side, before the tanh.

    Args:
        scale: The env's space, all of it bounded.
    """

    action_dtype = np.float32

    def __init__(self, scale: BoxScale) -> None:
        self.scale = scale
        self.size = scale.size
        self.num_outputs, self.num_noise = 2 * self.size, self.size
        self.action_shape = (self.size,)
        self.own_space = gymnasium.spaces.Box(-1.0, 1.0, self.action_shape)

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws standard normal numbers, [*shape, D]."""
        return generator.standard_normal((*shape, self.size), np.float32)

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Shifts and scales normal numbers [..., D], and squashes them."""
        means, stds = self._parts(outputs)
        actions: Floats = np.tanh(means + stds * noise)
        return actions

    @override
    def mode(self, outputs: Floats) -> Actions:
        """Returns what the means become."""
        return np.tanh(outputs[..., : self.size])

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Adds the coordinates' log-densities up; actions at a bound count as the nearest ones that have a density."""
        means, stds = self._parts(outputs)
        drawn = np.arctanh(actions.clip(-EDGE, EDGE))
        noise = (drawn - means) / stds
        stretched = 2 * (math.log(2) - drawn - np.logaddexp(0, -2 * drawn))
        result: Floats = (-0.5 * (noise * noise + LOG_2PI) - np.log(stds) - stretched).sum(-1, dtype=np.float32)
        return result

    def _parts(self, outputs: Floats) -> tuple[Floats, Floats]:
        return outputs[..., : self.size], np.exp(np.clip(outputs[..., self.size :], *LOG_STD_BOUNDS))

    @override
    def to_env(self, actions: Actions) -> Actions:
        """Goes to the env's own bounds."""
        return self.scale.to_env(actions)

    @override
    def from_env(self, actions: Actions) -> Actions:
        """Goes to units of the bounds."""
        return self.scale.from_env(actions).clip(-1, 1)

    def distribution(self, outputs: Tensor) -> SquashedGaussian:
        """Returns the distribution in torch, for the learner."""
        return SquashedGaussian(outputs)


class SquashedGaussian:
    """Normal variables that tanh squashes (torch). Its entropy has no closed form.

    The logarithm of tanh's derivative 1 - tanh(u)^2 is written 2 (log 2 - u - softplus(-2 u)), which is exact also
    where tanh(u) rounds to 1.

    Args:
        outputs: Means and log standard deviations side by side, [..., 2 * D].
    """

    def __init__(self, outputs: Tensor) -> None:
        self.outputs = outputs
        self.means, log_stds = outputs.chunk(2, -1)
        self.log_stds = log_stds.clamp(*LOG_STD_BOUNDS)

    def sample_and_log_prob(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Returns actions [..., D] between -1 and 1 for standard normal noise, and their log-densities [...]."""
        drawn = self.means + self.log_stds.exp() * noise
        densities = self._densities(drawn, noise)
        return drawn.tanh(), densities

    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the log-density of actions [..., D]; those at a bound count as the nearest that have a density."""
        drawn = actions.clamp(-EDGE, EDGE).atanh()
        return self._densities(drawn, (drawn - self.means) * (-self.log_stds).exp())

    def kl(self, other: SquashedGaussian) -> Tensor:
        """Returns KL(self || other), which is that of the normal variables: tanh is one-to-one."""
        scale = (2 * (self.log_stds - other.log_stds)).exp()
        shift = (self.means - other.means) * (-other.log_stds).exp()
        return (other.log_stds - self.log_stds + 0.5 * (scale + shift * shift - 1)).sum(-1)

    def _densities(self, drawn: Tensor, noise: Tensor) -> Tensor:
        from torch.nn.functional import softplus

        stretched = 2 * (math.log(2) - drawn - softplus(-2 * drawn))
        return (-0.5 * (noise * noise + LOG_2PI) - self.log_stds - stretched).sum(-1)
