"""What every action space gives to a policy (NumPy) and to a loss (torch).

A network describes an action distribution by one array of `outputs` [..., K]. Each file of this room holds both sides
of one family: its sampler in NumPy, which acts, and its distribution in torch, which a loss is a function of. Torch is
imported where a distribution needs it, so that a rollout worker does without.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float32]
Actions = NDArray[Any]


class ActionSpace(ABC):
    """A policy's own actions over an env's action space; plain data, so it travels to workers.

    The policy's own actions are what a batch stores and a loss is about.

    Attributes:
        num_outputs: K, numbers that describe one distribution or action.
        num_log_stds: How many of them, the last ones, are log standard deviations that no observation decides.
        action_shape: Shape of one of the policy's own actions.
        action_dtype: Their type.
    """

    num_outputs: int
    num_log_stds: int = 0
    action_shape: tuple[int, ...]
    action_dtype: type[np.generic]

    @abstractmethod
    def mode(self, outputs: Floats) -> Actions:
        """Returns the likeliest of the policy's own actions, [B, *action_shape]."""

    @abstractmethod
    def to_env(self, actions: Actions) -> Any:
        """Turns the policy's own actions [N, *action_shape] into elements of the env's action space."""

    @abstractmethod
    def from_env(self, actions: Any) -> Actions:
        """Turns elements of the env's action space, [N, ...], into the policy's own actions: the inverse of `to_env`.

        What `to_env` clips is not brought back.
        """


class StochasticActions(Protocol):
    """An action space with a distribution over it."""

    @property
    def num_outputs(self) -> int:
        """K, numbers that describe one distribution."""
        ...

    @property
    def num_noise(self) -> int:
        """Numbers of noise that one action is drawn by."""
        ...

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws noise for a block of actions, [*shape, ...]."""
        ...

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Draws the policy's own actions [B, *action_shape] from outputs [B, K] and noise [B, ...]."""
        ...

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Returns the log-probability of the policy's own actions; leading dimensions as given."""
        ...


class Distribution(ABC):
    """A batch of distributions over actions (torch).

    Every method reduces over the parts of an action, so results have the leading dimensions only.

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
