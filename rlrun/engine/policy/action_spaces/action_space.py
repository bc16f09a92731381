"""Interfaces of action spaces: samplers for behavior policies (NumPy) and distributions for losses (torch).

A network parametrises an action distribution by one array of `outputs` [..., K]. Each file of this package holds one
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
    """Action space of a policy: converts between env actions and the policy's internal representation of actions.

    Batches and losses use the internal representation, called the policy's own actions. Instances are picklable plain
    data for rollout workers.

    Attributes:
        num_outputs: K, network outputs that parametrise one distribution or action.
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
        """Mode of the action distributions, as the policy's own actions [B, *action_shape]."""

    @abstractmethod
    def to_env(self, actions: Actions) -> Any:
        """Converts the policy's own actions [N, *action_shape] to elements of the env's action space."""

    @abstractmethod
    def from_env(self, actions: Any) -> Actions:
        """Converts elements of the env's action space [N, ...] to the policy's own actions: the inverse of `to_env`.

        Clipping done by `to_env` is not undone.
        """


class StochasticActions(Protocol):
    """Protocol of action spaces with a stochastic policy: NumPy sampling and log-probabilities."""

    @property
    def num_outputs(self) -> int:
        """K, network outputs that parametrise one distribution."""
        ...

    @property
    def num_noise(self) -> int:
        """Number of noise variables per sampled action."""
        ...

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Samples the noise for a block of actions, [*shape, num_noise]."""
        ...

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Samples the policy's own actions [B, *action_shape] from network outputs [B, K] and given noise [B, ...]."""
        ...

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Log-probability of the policy's own actions, with the leading dimensions of the outputs."""
        ...


class Distribution(ABC):
    """Batch of action distributions (torch).

    Every method reduces over the parts of an action, so results have the leading dimensions only.

    Attributes:
        outputs: Parameters of the distributions, [..., K].
    """

    outputs: Tensor

    @abstractmethod
    def like(self, outputs: Tensor) -> Self:
        """Copy of this distribution with other network outputs [..., K]."""

    @abstractmethod
    def kl(self, other: Self) -> Tensor:
        """KL divergence KL(self || other), [...]."""

    @abstractmethod
    def log_prob(self, actions: Tensor) -> Tensor:
        """Log-probability (log-density for continuous actions) of the policy's own actions, [...]."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """Entropy in nats, [...]."""
