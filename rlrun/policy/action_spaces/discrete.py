"""Discrete(n, start): one choice among n."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from typing_extensions import override

from rlrun.functional.softmax import log_softmax
from rlrun.policy.action_spaces.action_space import Actions, ActionSpace, Distribution, Floats

if TYPE_CHECKING:
    from torch import Tensor


def gumbel(generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Draws standard Gumbel noise; arg max (logits + noise) is a sample of softmax(logits)."""
    exponential = generator.standard_exponential(shape, np.float32)
    drawn: Floats = -np.log(exponential.clip(np.finfo(np.float32).tiny))
    return drawn


class DiscreteActions(ActionSpace):
    """One choice; outputs are logits, or values of which the largest is best.

    Args:
        space: The env's space.
    """

    action_shape = ()
    action_dtype = np.int64

    def __init__(self, space: gymnasium.spaces.Discrete) -> None:
        self.num_outputs = self.num_noise = int(space.n)
        self.start = int(space.start)
        self.space_dtype = space.dtype
        self.own_space = gymnasium.spaces.Discrete(space.n)

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws Gumbel noise."""
        return gumbel(generator, (*shape, self.num_outputs))

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Takes the largest of logits + Gumbel noise."""
        result: Actions = (outputs + noise).argmax(-1)
        return result

    @override
    def mode(self, outputs: Floats) -> Actions:
        """Takes the largest logit."""
        result: Actions = outputs.argmax(-1)
        return result

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Picks the chosen log-probabilities."""
        return np.take_along_axis(log_softmax(outputs), actions[..., None], -1)[..., 0]

    @override
    def to_env(self, actions: Actions) -> Actions:
        """Counts from the space's start, in its type."""
        return (actions + self.start if self.start else actions).astype(self.space_dtype, copy=False)

    @override
    def from_env(self, actions: Actions) -> Actions:
        """Counts from 0."""
        return actions.astype(np.int64) - self.start

    def distribution(self, outputs: Tensor) -> Categorical:
        """Returns the distribution in torch, for the learner."""
        return Categorical(outputs)


class Categorical(Distribution):
    """One choice among A (torch).

    Args:
        outputs: Unnormalised log-probabilities, [..., A].
    """

    def __init__(self, outputs: Tensor) -> None:
        self.outputs = outputs
        self.log_probs = outputs.log_softmax(-1)

    @override
    def like(self, outputs: Tensor) -> Categorical:
        """Returns the same over other outputs."""
        return Categorical(outputs)

    @override
    def kl(self, other: Categorical) -> Tensor:
        """Returns sum p (log p - log q)."""
        return (self.log_probs.exp() * (self.log_probs - other.log_probs)).sum(-1)

    @override
    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns log p of choices [...] (int64)."""
        return self.log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    @override
    def entropy(self) -> Tensor:
        """Returns -sum p log p."""
        return -(self.log_probs.exp() * self.log_probs).sum(-1)
