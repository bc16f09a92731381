"""MultiBinary: several independent yes/no choices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from typing_extensions import override

from rlrun.policy.action_spaces.action_space import Actions, ActionSpace, Distribution, Floats

if TYPE_CHECKING:
    from torch import Tensor


class MultiBinaryActions(ActionSpace):
    """Several independent yes/no choices, in a row whatever the space's shape; outputs are the logits of "yes".

    Args:
        space: The env's space.
    """

    action_dtype = np.int8

    def __init__(self, space: gymnasium.spaces.MultiBinary) -> None:
        self.space_shape = space.shape
        self.num_outputs = self.num_noise = math.prod(space.shape)
        self.action_shape = (self.num_outputs,)

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws logistic noise."""
        return generator.logistic(size=(*shape, self.num_outputs)).astype(np.float32)

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Says yes where logit + logistic noise is positive."""
        return self.mode(outputs + noise)

    @override
    def mode(self, outputs: Floats) -> Actions:
        """Says yes where the logit is positive."""
        return (outputs > 0).astype(np.int8)

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Adds the choices' log-probabilities up."""
        signed = np.where(actions > 0, outputs, -outputs)
        result: Floats = -np.logaddexp(0, -signed).sum(-1, dtype=np.float32)
        return result

    @override
    def to_env(self, actions: Actions) -> Actions:
        """Gives the choices the space's shape."""
        return actions.reshape(len(actions), *self.space_shape)

    @override
    def from_env(self, actions: Actions) -> Actions:
        """Puts the choices in a row."""
        return actions.reshape(len(actions), -1).astype(np.int8, copy=False)

    def distribution(self, outputs: Tensor) -> Bernoulli:
        """Returns the distribution in torch, for the learner."""
        return Bernoulli(outputs)


class Bernoulli(Distribution):
    """Several independent yes/no choices (torch).

    Args:
        outputs: The logits of "yes", [..., A].
    """

    def __init__(self, outputs: Tensor) -> None:
        self.outputs = outputs

    @override
    def like(self, outputs: Tensor) -> Bernoulli:
        """Returns the same over other outputs."""
        return Bernoulli(outputs)

    @override
    def kl(self, other: Bernoulli) -> Tensor:
        """Returns the sum of the choices' divergences."""
        from torch.nn.functional import logsigmoid

        yes = self.outputs.sigmoid()
        gained = logsigmoid(self.outputs) - logsigmoid(other.outputs)
        lost = logsigmoid(-self.outputs) - logsigmoid(-other.outputs)
        return (yes * gained + (1 - yes) * lost).sum(-1)

    @override
    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the sum of log p over choices [..., A] of 0 and 1."""
        from torch.nn.functional import logsigmoid

        return (logsigmoid(self.outputs) - (1 - actions.to(self.outputs.dtype)) * self.outputs).sum(-1)

    @override
    def entropy(self) -> Tensor:
        """Returns the sum of the choices' entropies."""
        from torch.nn.functional import softplus

        return (softplus(-self.outputs) + (1 - self.outputs.sigmoid()) * self.outputs).sum(-1)
