"""Discrete action space: categorical distributions and greedy Q actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from typing_extensions import override

from rlrun.engine.functional.softmax import log_softmax
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.action_spaces.action_space import Actions, ActionSpace, Distribution, Floats

if TYPE_CHECKING:
    from torch import Tensor


def gumbel(generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Samples standard Gumbel noise; argmax (logits + noise) is a sample of softmax(logits)."""
    exponential = generator.standard_exponential(shape, np.float32)
    drawn: Floats = -np.log(exponential.clip(np.finfo(np.float32).tiny))
    return drawn


class DiscreteActions(ActionSpace):
    """Discrete actions counted from 0; outputs are categorical logits or Q values.

    Args:
        space: The env's action space.
    """

    action_shape = ()
    action_dtype = np.int64

    def __init__(self, space: gymnasium.spaces.Discrete) -> None:
        self.num_outputs = self.num_noise = int(space.n)
        self.start = int(space.start)
        self.space_dtype = space.dtype
        self.own_space = gymnasium.spaces.Discrete(space.n)

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Samples standard Gumbel noise, [*shape, A]."""
        return gumbel(generator, (*shape, self.num_outputs))

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Samples actions [...] by the Gumbel-max trick."""
        result: Actions = (outputs + noise).argmax(-1)
        return result

    @override
    def mode(self, outputs: Floats) -> Actions:
        """Greedy actions [...]: argmax of the logits or Q values."""
        result: Actions = outputs.argmax(-1)
        return result

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Log-probability [...] of actions under the categorical distributions."""
        return np.take_along_axis(log_softmax(outputs), actions[..., None], -1)[..., 0]

    @override
    def to_env(self, actions: Actions) -> Actions:
        """Adds the space's start offset, and converts actions to the space's type."""
        return (actions + self.start if self.start else actions).astype(self.space_dtype, copy=False)

    @override
    def from_env(self, actions: Actions) -> Actions:
        """Subtracts the space's start offset, [N]."""
        return actions.astype(np.int64) - self.start

    def distribution(self, outputs: Tensor) -> Categorical:
        """Creates the torch distribution for given network outputs, for use in losses."""
        return Categorical(outputs)


class Categorical(Distribution):
    """Categorical distribution over A actions (torch).

    Args:
        outputs: Logits, [..., A].
    """

    def __init__(self, outputs: Tensor) -> None:
        self.outputs = outputs
        self.log_probs = outputs.log_softmax(-1)

    @override
    def like(self, outputs: Tensor) -> Categorical:
        """Copy of this distribution with other network outputs [..., K]."""
        return Categorical(outputs)

    @override
    def kl(self, other: Categorical) -> Tensor:
        """KL divergence KL(self || other), [...]."""
        return (self.log_probs.exp() * (self.log_probs - other.log_probs)).sum(-1)

    @override
    def log_prob(self, actions: Tensor) -> Tensor:
        """Log-probability of int64 actions, [...]."""
        return self.log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    @override
    def entropy(self) -> Tensor:
        """Entropy -sum p log p, [...]."""
        return -(self.log_probs.exp() * self.log_probs).sum(-1)


def one_hot(actions: Tensor, number: int) -> Tensor:
    """One-hot encoding [..., A] of Discrete actions [...], in float32 (torch).

    Args:
        actions: The policy's own actions, which count from 0.
        number: Number of actions, A.
    """
    # A sum of ones in place of arange: it takes the device along.
    return (actions.unsqueeze(-1) == actions.new_ones(number).cumsum(0) - 1).float()


def discrete_actions(space: gymnasium.Space[Any]) -> DiscreteActions:
    """Creates the Discrete action space of a Q policy.

    Raises:
        UsageError: If the space is not Discrete.
    """
    if not isinstance(space, gymnasium.spaces.Discrete):
        raise UsageError(f"a Q policy chooses among a finite number of actions (Discrete), not in {space}")
    return DiscreteActions(space)
