"""Action distributions on the learning side, as functions of what a net puts out (torch).

A distribution is described by one array of `outputs` [..., K]; `rlrun.policy.action_space` cuts the same array into
actions in NumPy. Every method reduces over the parts of an action, so results have the leading dimensions only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

LOG_2PI = math.log(2 * math.pi)


class Distribution(ABC):
    """A batch of distributions over actions."""

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
        self.log_probs = outputs.log_softmax(-1)

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
        self.parts = [Categorical(part) for part in torch.split(outputs, list(sizes), -1)]

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
        self.logits = outputs

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
        self.means, self.log_stds = outputs.chunk(2, -1)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the log-density of actions [..., A], in the policy's own scale."""
        scaled = (actions - self.means) * (-self.log_stds).exp()
        return (-0.5 * (scaled * scaled + LOG_2PI) - self.log_stds).sum(-1)

    def entropy(self) -> Tensor:
        """Returns the differential entropy."""
        return (self.log_stds + 0.5 * (1 + LOG_2PI)).sum(-1)
