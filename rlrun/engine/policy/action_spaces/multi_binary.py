"""MultiBinary action space: independent Bernoulli distributions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from typing_extensions import override

from rlrun.engine.policy.action_spaces.action_space import Actions, ActionSpace, Distribution, Floats

if TYPE_CHECKING:
    from torch import Tensor


class MultiBinaryActions(ActionSpace):
    """Flattened MultiBinary actions; outputs are Bernoulli logits.

    Args:
        space: The env's action space.
    """

    action_dtype = np.int8

    def __init__(self, space: gymnasium.spaces.MultiBinary) -> None:
        self.space_shape = space.shape
        self.num_outputs = self.num_noise = math.prod(space.shape)
        self.action_shape = (self.num_outputs,)

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Samples standard logistic noise, [*shape, A]."""
        return generator.logistic(size=(*shape, self.num_outputs)).astype(np.float32)

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Samples the Bernoulli distributions: 1 where logit + logistic noise is positive."""
        return self.mode(outputs + noise)

    @override
    def mode(self, outputs: Floats) -> Actions:
        """Mode of the Bernoulli distributions: 1 where the logit is positive."""
        return (outputs > 0).astype(np.int8)

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Log-probability of actions [..., A], summed over the Bernoulli variables."""
        signed = np.where(actions > 0, outputs, -outputs)
        result: Floats = -np.logaddexp(0, -signed).sum(-1, dtype=np.float32)
        return result

    @override
    def to_env(self, actions: Actions) -> Actions:
        """Reshapes actions [N, A] to the shape of the env's space, [N, *shape]."""
        return actions.reshape(len(actions), *self.space_shape)

    @override
    def from_env(self, actions: Actions) -> Actions:
        """Flattens env actions to [N, A]."""
        return actions.reshape(len(actions), -1).astype(np.int8, copy=False)

    def distribution(self, outputs: Tensor) -> Bernoulli:
        """Creates the torch distribution for given network outputs, for use in losses."""
        return Bernoulli(outputs)


class Bernoulli(Distribution):
    """Independent Bernoulli distributions (torch).

    Args:
        outputs: Logits of the value 1, [..., A].
    """

    def __init__(self, outputs: Tensor) -> None:
        self.outputs = outputs

    @override
    def like(self, outputs: Tensor) -> Bernoulli:
        """Copy of this distribution with other network outputs [..., K]."""
        return Bernoulli(outputs)

    @override
    def kl(self, other: Bernoulli) -> Tensor:
        """KL divergence KL(self || other), summed over the independent Bernoulli variables, [...]."""
        from torch.nn.functional import logsigmoid

        yes = self.outputs.sigmoid()
        gained = logsigmoid(self.outputs) - logsigmoid(other.outputs)
        lost = logsigmoid(-self.outputs) - logsigmoid(-other.outputs)
        return (yes * gained + (1 - yes) * lost).sum(-1)

    @override
    def log_prob(self, actions: Tensor) -> Tensor:
        """Log-probability [...] of binary actions [..., A], summed over the Bernoulli variables."""
        from torch.nn.functional import logsigmoid

        return (logsigmoid(self.outputs) - (1 - actions.to(self.outputs.dtype)) * self.outputs).sum(-1)

    @override
    def entropy(self) -> Tensor:
        """Entropy, summed over the Bernoulli variables, [...]."""
        from torch.nn.functional import softplus

        return (softplus(-self.outputs) + (1 - self.outputs.sigmoid()) * self.outputs).sum(-1)
