"""Optimizers, with their states as named tensors.

All are elementwise, so that slices of the parameters can be updated separately.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from torch import Tensor

STEPS = "steps"
"""Part of a state that counts updates, []; every other part has the shape of the parameters."""

OptimizerState = dict[str, "Tensor"]
"""An optimizer's tensors for one objective, by the names of its parts; changed in place."""


class Optimizer(Protocol):
    """Update rule of parameters by a gradient; a frozen dataclass, whose `repr` identifies it.

    Attributes:
        parts: Names of the tensors of its state, all zero before the first update.
    """

    @property
    def parts(self) -> tuple[str, ...]:
        """See the class."""

    def step(self, parameters: Tensor, gradient: Tensor, state: OptimizerState, lr: Tensor) -> None:
        """Updates parameters and state, both in place.

        Args:
            parameters: The parameters, [N].
            gradient: The gradient of the loss, [N].
            state: The optimizer's tensors.
            lr: The learning rate, [].
        """


@dataclass(frozen=True)
class Adam:
    """Adaptive moments (Kingma and Ba, arXiv:1412.6980, algorithm 1).

    Attributes:
        epsilon: Added to the root of the second moment.
    """

    epsilon: float = 1e-5

    beta_1: ClassVar[float] = 0.9
    beta_2: ClassVar[float] = 0.999
    parts: ClassVar[tuple[str, ...]] = ("first", "second", STEPS)

    def step(self, parameters: Tensor, gradient: Tensor, state: OptimizerState, lr: Tensor) -> None:
        """Updates parameters by one step; see `Optimizer`."""
        state[STEPS].add_(1)
        state["first"].lerp_(gradient, 1 - self.beta_1)
        state["second"].mul_(self.beta_2).addcmul_(gradient, gradient, value=1 - self.beta_2)
        step_size = computed_once(lr / (1 - self.beta_1 ** state[STEPS]))
        root_correction = computed_once((1 - self.beta_2 ** state[STEPS]).rsqrt())
        denominator = (state["second"].sqrt() * root_correction).add_(self.epsilon)
        parameters.sub_(step_size * state["first"] / denominator)


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter, arXiv:1711.05101, algorithm 2).

    Attributes:
        weight_decay: Fraction of each parameter, times the learning rate, that is subtracted at an update.
        epsilon: Added to the root of the second moment.
    """

    weight_decay: float = 0.01
    epsilon: float = 1e-5

    parts: ClassVar[tuple[str, ...]] = Adam.parts

    def step(self, parameters: Tensor, gradient: Tensor, state: OptimizerState, lr: Tensor) -> None:
        """Updates parameters by one step; see `Optimizer`."""
        parameters.mul_(computed_once(1 - lr * self.weight_decay))
        Adam(self.epsilon).step(parameters, gradient, state, lr)


@dataclass(frozen=True)
class RMSProp:
    """RMSProp: gradients over the root of their running mean square, with epsilon under the root.

    Attributes:
        decay: Decay rate of the running means.
        epsilon: Added to the mean square before the square root.
        centered: Whether the squared running mean is subtracted first, which gives the variance.

    Source:
        Mnih et al., arXiv:1602.01783, eqs. S2 and S3; centered: Graves, arXiv:1308.0850, eqs. 38 to 41.
    """

    decay: float = 0.99
    epsilon: float = 0.01
    centered: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the tensors of its state."""
        return ("first", "second") if self.centered else ("second",)

    def step(self, parameters: Tensor, gradient: Tensor, state: OptimizerState, lr: Tensor) -> None:
        """Updates parameters by one step; see `Optimizer`."""
        square = state["second"].mul_(self.decay).addcmul_(gradient, gradient, value=1 - self.decay)
        if self.centered:
            mean = state["first"].lerp_(gradient, 1 - self.decay)
            square = (square - mean * mean).clamp(min=0)  # rounding may leave less than nothing
        parameters.sub_(lr * gradient / (square + self.epsilon).sqrt())


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent, with heavy-ball momentum if asked for (Polyak 1964, as in torch).

    Attributes:
        momentum: Momentum coefficient; 0 for none.
    """

    momentum: float = 0.0

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the tensors of its state."""
        return ("velocity",) if self.momentum else ()

    def step(self, parameters: Tensor, gradient: Tensor, state: OptimizerState, lr: Tensor) -> None:
        """Updates parameters by one step; see `Optimizer`."""
        if self.momentum:
            gradient = state["velocity"].mul_(self.momentum).add_(gradient)
        parameters.sub_(lr * gradient)


def computed_once(scalar: Tensor) -> Tensor:
    """A scalar, unchanged, that the compiler keeps in memory, [].

    Otherwise compiled code would compute it again, powers and roots included, for every few parameters. A view with
    explicit strides forces it into memory.
    """
    return scalar.as_strided((), ())
