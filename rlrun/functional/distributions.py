"""Action distributions on the learning side, as functions of what a net puts out (torch).

A distribution is described by one array of `outputs` [..., K]; `rlrun.policy.action_space` cuts the same array into
actions in NumPy. Every method reduces over the parts of an action, so results have the leading dimensions only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

LOG_2PI = math.log(2 * math.pi)


class Distribution(ABC):
    """A batch of distributions over actions.

    Attributes:
        outputs: What describes them, [..., K].
    """

    outputs: Tensor

    @abstractmethod
    def like(self, outputs: Tensor) -> Self:
        """Returns distributions of the same kind that other outputs [..., K] describe."""

    @abstractmethod
    def kl(self, other: Self) -> Tensor:
        """Returns the Kullback-Leibler divergence of another distribution from this one, KL(self || other), [...]."""

    @abstractmethod
    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the log-probability (density for continuous actions) of the policy's own actions, [...]."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """Returns the entropy in nats, [...]."""


class Categorical(Distribution):
    """One choice among A."""

    def __init__(self, outputs: Tensor) -> None:
        """Takes unnormalised log-probabilities, [..., A]."""
        self.outputs = outputs
        self.log_probs = outputs.log_softmax(-1)

    def like(self, outputs: Tensor) -> Categorical:
        """Returns the same over other outputs."""
        return Categorical(outputs)

    def kl(self, other: Categorical) -> Tensor:
        """Returns sum p (log p - log q)."""
        return (self.log_probs.exp() * (self.log_probs - other.log_probs)).sum(-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns log p of choices [...] (int64)."""
        return self.log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Returns -sum p log p."""
        return -(self.log_probs.exp() * self.log_probs).sum(-1)


class MultiCategorical(Distribution):
    """Several independent choices."""

    def __init__(self, outputs: Tensor, sizes: Sequence[int]) -> None:
        """Takes the logits of all choices side by side, [..., sum(sizes)]."""
        self.outputs = outputs
        self.sizes = tuple(sizes)
        self.parts = [Categorical(part) for part in torch.split(outputs, list(sizes), -1)]

    def like(self, outputs: Tensor) -> MultiCategorical:
        """Returns the same over other outputs."""
        return MultiCategorical(outputs, self.sizes)

    def kl(self, other: MultiCategorical) -> Tensor:
        """Returns the sum of the choices' divergences."""
        pairs = zip(self.parts, other.parts, strict=True)
        return torch.stack([part.kl(theirs) for part, theirs in pairs]).sum(0)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the sum of log p over choices [..., len(sizes)] (int64)."""
        return torch.stack([part.log_prob(actions[..., i]) for i, part in enumerate(self.parts)]).sum(0)

    def entropy(self) -> Tensor:
        """Returns the sum of the choices' entropies."""
        return torch.stack([part.entropy() for part in self.parts]).sum(0)


class Bernoulli(Distribution):
    """Several independent yes/no choices."""

    def __init__(self, outputs: Tensor) -> None:
        """Takes the logits of "yes", [..., A]."""
        self.outputs = self.logits = outputs

    def like(self, outputs: Tensor) -> Bernoulli:
        """Returns the same over other outputs."""
        return Bernoulli(outputs)

    def kl(self, other: Bernoulli) -> Tensor:
        """Returns the sum of the choices' divergences."""
        yes = self.logits.sigmoid()
        gained = logsigmoid(self.logits) - logsigmoid(other.logits)
        lost = logsigmoid(-self.logits) - logsigmoid(-other.logits)
        return (yes * gained + (1 - yes) * lost).sum(-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the sum of log p over choices [..., A] of 0 and 1."""
        return (logsigmoid(self.logits) - (1 - actions.to(self.logits.dtype)) * self.logits).sum(-1)

    def entropy(self) -> Tensor:
        """Returns the sum of the choices' entropies."""
        return (softplus(-self.logits) + (1 - self.logits.sigmoid()) * self.logits).sum(-1)


class DiagonalGaussian(Distribution):
    """Independent normal variables."""

    def __init__(self, outputs: Tensor) -> None:
        """Takes means and log standard deviations side by side, [..., 2 * A]."""
        self.outputs = outputs
        self.means, self.log_stds = outputs.chunk(2, -1)

    def like(self, outputs: Tensor) -> DiagonalGaussian:
        """Returns the same over other outputs."""
        return DiagonalGaussian(outputs)

    def kl(self, other: DiagonalGaussian) -> Tensor:
        """Returns the sum of the variables' divergences."""
        scale = (2 * (self.log_stds - other.log_stds)).exp()
        shift = (self.means - other.means) * (-other.log_stds).exp()
        return (other.log_stds - self.log_stds + 0.5 * (scale + shift * shift - 1)).sum(-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the log-density of actions [..., A], in the policy's own scale."""
        scaled = (actions - self.means) * (-self.log_stds).exp()
        return (-0.5 * (scaled * scaled + LOG_2PI) - self.log_stds).sum(-1)

    def entropy(self) -> Tensor:
        """Returns the differential entropy."""
        return (self.log_stds + 0.5 * (1 + LOG_2PI)).sum(-1)
