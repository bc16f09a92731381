"""Interfaces of action spaces: NumPy samplers for rollout workers, and torch distributions for losses.

A network parametrizes an action distribution by one array of `outputs` [..., K]. Each file of this package holds one
family: its sampler in NumPy for acting, and its distribution in torch for losses. Torch is imported lazily, so that
rollout workers run without torch.
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
    """Action space: converts between env actions and a policy's own representation, which may be rescaled or flattened.

    Batches and losses use this representation, called the policy's own actions. Instances are picklable plain
    data for rollout workers.

    Attributes:
        num_outputs: Number of network outputs that parametrize one distribution or action, K.
        num_log_stds: Number of state-independent log standard deviations, the last of the K outputs.
        action_shape: Shape of one of the policy's own actions.
        action_dtype: NumPy type of the policy's own actions.
        is_deterministic: Whether outputs are actions instead of parameters of a distribution.
    """

    num_outputs: int
    num_log_stds: int = 0
    action_shape: tuple[int, ...]
    action_dtype: type[np.generic]
    is_deterministic: bool = False

    @abstractmethod
    def mode(self, outputs: Floats) -> Actions:
        """Returns the most probable actions, in the policy's own representation, one per row of network outputs."""

    @abstractmethod
    def to_env(self, actions: Actions) -> Any:
        """Converts N actions from the policy's own representation to elements of the env's action space."""

    @abstractmethod
    def from_env(self, actions: Any) -> Actions:
        """Converts N elements of the env's action space to the policy's own representation: the inverse of `to_env`.

        Clipping done by `to_env` is not undone.
        """


class StochasticActions(Protocol):
    """Interface of action spaces from which a policy samples: sampling and log-probabilities in NumPy."""

    @property
    def num_outputs(self) -> int:
        """Number of network outputs that parametrize one action distribution."""
        ...

    @property
    def num_noise(self) -> int:
        """Number of random numbers needed to sample one action."""
        ...

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws the random numbers for a whole array of actions at once, [*shape, num_noise]."""
        ...

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Samples B actions [B, *action_shape] from network outputs [B, num_outputs], using noise drawn by `noise`."""
        ...

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Returns the log-probability of one action, in the policy's own representation, per row of network outputs."""
        ...


class Distribution(ABC):
    """Batch of action distributions, parametrized by network outputs (torch).

    Every method returns one number per distribution, summed over the dimensions of an action.

    Attributes:
        outputs: Parameters of the distributions, [..., K]; the leading dimensions form the batch.
    """

    outputs: Tensor

    @abstractmethod
    def like(self, outputs: Tensor) -> Self:
        """Creates distributions of the same family from other network outputs [..., K]."""

    @abstractmethod
    def kl(self, other: Self) -> Tensor:
        """Returns the KL divergence KL(self || other) of each distribution in the batch."""

    @abstractmethod
    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the log-probability, or log-density if continuous, of one action per distribution in the batch."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """Returns the entropy in nats of each distribution in the batch."""
