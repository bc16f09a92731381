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
    """Samples standard Gumbel noise; the argmax of logits plus this noise is a sample of softmax(logits)."""
    exponential = generator.standard_exponential(shape, np.float32)
    drawn: Floats = -np.log(exponential.clip(np.finfo(np.float32).tiny))
    return drawn


class DiscreteActions(ActionSpace):
    """Discrete actions numbered from 0, for network outputs that are categorical logits or Q values.

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
        """Samples standard Gumbel noise for each of the actions, [*shape, num_actions]."""
        return gumbel(generator, (*shape, self.num_outputs))

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Samples one action per row of logits, by adding Gumbel noise and taking the argmax."""
        result: Actions = (outputs + noise).argmax(-1)
        return result

    @override
    def mode(self, outputs: Floats) -> Actions:
        """Returns greedy actions: the argmax of the logits or Q values over the last axis."""
        result: Actions = outputs.argmax(-1)
        return result

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Returns the log-probability of each action under the categorical distribution given by its row of logits."""
        return np.take_along_axis(log_softmax(outputs), actions[..., None], -1)[..., 0]

    @override
    def to_env(self, actions: Actions) -> Actions:
        """Converts actions numbered from 0 to env actions: adds the space's start and converts to the space's dtype."""
        if self.start:
            actions = actions + self.start
        return actions if actions.dtype == self.space_dtype else actions.astype(self.space_dtype)

    @override
    def from_env(self, actions: Actions) -> Actions:
        """Converts N env actions to actions numbered from 0, by subtracting the space's start."""
        return actions.astype(np.int64) - self.start

    def distribution(self, outputs: Tensor) -> Categorical:
        """Creates categorical distributions from network outputs, for losses in torch."""
        return Categorical(outputs)


class Categorical(Distribution):
    """Categorical distributions over discrete actions, one per row of logits (torch).

    Args:
        outputs: Logits, [..., num_actions].
    """

    def __init__(self, outputs: Tensor) -> None:
        self.outputs = outputs
        self.log_probs = outputs.log_softmax(-1)

    @override
    def like(self, outputs: Tensor) -> Categorical:
        """Creates categorical distributions from other logits [..., num_actions]."""
        return Categorical(outputs)

    @override
    def kl(self, other: Categorical) -> Tensor:
        """Returns the KL divergence KL(self || other) of each distribution in the batch."""
        return (self.log_probs.exp() * (self.log_probs - other.log_probs)).sum(-1)

    @override
    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the log-probability of one action, an int64, per distribution in the batch."""
        return self.log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    @override
    def entropy(self) -> Tensor:
        """Returns the entropy -sum p log p of each distribution in the batch."""
        return -(self.log_probs.exp() * self.log_probs).sum(-1)


def one_hot(actions: Tensor, number: int) -> Tensor:
    """Encodes Discrete actions as one-hot float32 vectors, in a new last axis (torch).

    Args:
        actions: Actions numbered from 0.
        number: Number of actions, the size of the new axis.
    """
    # Unlike arange, a cumulative sum of ones stays on the device of `actions`.
    return (actions.unsqueeze(-1) == actions.new_ones(number).cumsum(0) - 1).float()


def discrete_actions(space: gymnasium.Space[Any]) -> DiscreteActions:
    """Creates the action space of a Q-learning policy for an env with Discrete actions.

    Raises:
        UsageError: If the env's action space is not Discrete.
    """
    if not isinstance(space, gymnasium.spaces.Discrete):
        raise UsageError(f"a Q policy needs a Discrete action space, but this env has {space}")
    return DiscreteActions(space)
