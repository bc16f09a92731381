"""MultiBinary action space: one independent Bernoulli distribution per bit."""

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
    """MultiBinary actions flattened to vectors of bits; each network output is the logit of one bit.

    Args:
        space: The env's action space.
    """

    action_dtype = np.int8

    def __init__(self, space: gymnasium.spaces.MultiBinary) -> None:
        self.space_shape = space.shape
        self.num_outputs = self.num_noise = math.prod(space.shape)
        self.action_shape = (self.num_outputs,)

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Samples standard logistic noise, one number per bit, [*shape, num_bits]."""
        return generator.logistic(size=(*shape, self.num_outputs)).astype(np.float32)

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Samples each bit from its Bernoulli distribution: 1 where logit + logistic noise is positive."""
        return self.mode(outputs + noise)

    @override
    def mode(self, outputs: Floats) -> Actions:
        """Returns the most probable bits: 1 where the logit is positive."""
        return (outputs > 0).astype(np.int8)

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Returns the log-probabilities of binary actions, summed over the bits of each action."""
        signed = np.where(actions > 0, outputs, -outputs)
        result: Floats = -np.logaddexp(0, -signed).sum(-1, dtype=np.float32)
        return result

    @override
    def to_env(self, actions: Actions) -> Actions:
        """Reshapes N flat vectors of bits to the shape of the env's action space."""
        return actions.reshape(len(actions), *self.space_shape)

    @override
    def from_env(self, actions: Actions) -> Actions:
        """Flattens N env actions to vectors of bits, [N, num_bits]."""
        return actions.reshape(len(actions), -1).astype(np.int8, copy=False)

    def distribution(self, outputs: Tensor) -> Bernoulli:
        """Creates independent Bernoulli distributions from network outputs, for losses in torch."""
        return Bernoulli(outputs)


class Bernoulli(Distribution):
    """Independent Bernoulli distributions over the bits of a binary action (torch).

    Args:
        outputs: Logits of the value 1, [..., num_bits].
    """

    def __init__(self, outputs: Tensor) -> None:
        self.outputs = outputs

    @override
    def like(self, outputs: Tensor) -> Bernoulli:
        """Creates Bernoulli distributions from other logits [..., num_bits]."""
        return Bernoulli(outputs)

    @override
    def kl(self, other: Bernoulli) -> Tensor:
        """Returns the KL divergence KL(self || other) for each action of the batch, summed over independent bits."""
        from torch.nn.functional import logsigmoid

        yes = self.outputs.sigmoid()
        gained = logsigmoid(self.outputs) - logsigmoid(other.outputs)
        lost = logsigmoid(-self.outputs) - logsigmoid(-other.outputs)
        return (yes * gained + (1 - yes) * lost).sum(-1)

    @override
    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the log-probability of each binary action in the batch, summed over its bits."""
        from torch.nn.functional import logsigmoid

        return (logsigmoid(self.outputs) - (1 - actions.to(self.outputs.dtype)) * self.outputs).sum(-1)

    @override
    def entropy(self) -> Tensor:
        """Returns the entropy for each action of the batch, summed over the independent bits."""
        from torch.nn.functional import softplus

        return (softplus(-self.outputs) + (1 - self.outputs.sigmoid()) * self.outputs).sum(-1)
