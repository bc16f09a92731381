"""Gradient-descent optimizers as functions that update parameters in place; their states are named tensors.

All update rules are elementwise, so that slices of the parameters can be updated separately.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from torch import Tensor

STEPS = "steps"
"""Name of the update counter [] in an optimizer state; all other state tensors have the parameters' shape."""

OptimizerState = dict[str, "Tensor"]
"""Optimizer state of one objective: tensors by part name, changed in place."""


class Optimizer(Protocol):
    """Interface of optimizers: an update rule with its constants, as a frozen dataclass.

    Attributes:
        parts: Names of the optimizer's state tensors, all zero before the first update.
    """

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the optimizer's state tensors, all zero before the first update."""

    def step(self, parameters: Tensor, gradient: Tensor, state: OptimizerState, lr: Tensor) -> None:
        """Applies one optimizer step to parameters and optimizer state, in place.

        Args:
            parameters: Flat parameters, [N].
            gradient: Gradient of the loss, [N].
            state: Optimizer state tensors by part name.
            lr: Learning rate, a scalar.
        """


@dataclass(frozen=True)
class Adam:
    """Adam: adaptive moment estimation (Kingma and Ba, arXiv:1412.6980, algorithm 1).

    Attributes:
        epsilon: Constant added to the square root of the second moment.
        beta_1: Decay rate of the first moment.
    """

    epsilon: float = 1e-5
    beta_1: float = 0.9

    beta_2: ClassVar[float] = 0.999
    parts: ClassVar[tuple[str, ...]] = ("first", "second", STEPS)

    def step(self, parameters: Tensor, gradient: Tensor, state: OptimizerState, lr: Tensor) -> None:
        """Applies one Adam step to parameters and optimizer state, in place."""
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
        weight_decay: Decoupled decay coefficient: each update subtracts lr * weight_decay * parameter.
        epsilon: Constant added to the square root of the second moment.
        beta_1: Decay rate of the first moment.
    """

    weight_decay: float = 0.01
    epsilon: float = 1e-5
    beta_1: float = 0.9

    parts: ClassVar[tuple[str, ...]] = Adam.parts

    def step(self, parameters: Tensor, gradient: Tensor, state: OptimizerState, lr: Tensor) -> None:
        """Applies one AdamW step to parameters and optimizer state, in place."""
        parameters.mul_(computed_once(1 - lr * self.weight_decay))
        Adam(self.epsilon, self.beta_1).step(parameters, gradient, state, lr)


@dataclass(frozen=True)
class RMSProp:
    """RMSProp: gradients divided by their running root mean square, with epsilon inside the root.

    Attributes:
        decay: Decay rate of the exponential moving averages.
        epsilon: Constant added to the mean square before the square root.
        centered: Whether to normalize by the running variance instead of the mean square (centered RMSProp).

    Source:
        Mnih et al., arXiv:1602.01783, eqs. S2 and S3; centered: Graves, arXiv:1308.0850, eqs. 38 to 41.
    """

    decay: float = 0.99
    epsilon: float = 0.01
    centered: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the optimizer's state tensors: running averages of gradients."""
        return ("first", "second") if self.centered else ("second",)

    def step(self, parameters: Tensor, gradient: Tensor, state: OptimizerState, lr: Tensor) -> None:
        """Applies one RMSProp step to parameters and optimizer state, in place."""
        square = state["second"].mul_(self.decay).addcmul_(gradient, gradient, value=1 - self.decay)
        if self.centered:
            mean = state["first"].lerp_(gradient, 1 - self.decay)
            square = (square - mean * mean).clamp(min=0)  # rounding errors may make it negative
        parameters.sub_(lr * gradient / (square + self.epsilon).sqrt())


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent with optional heavy-ball momentum (Polyak 1964, as in torch).

    Attributes:
        momentum: Momentum coefficient; 0 for none.
    """

    momentum: float = 0.0

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the optimizer's state tensors: the momentum, if used."""
        return ("velocity",) if self.momentum else ()

    def step(self, parameters: Tensor, gradient: Tensor, state: OptimizerState, lr: Tensor) -> None:
        """Applies one SGD step to parameters and momentum, in place."""
        if self.momentum:
            gradient = state["velocity"].mul_(self.momentum).add_(gradient)
        parameters.sub_(lr * gradient)


def computed_once(scalar: Tensor) -> Tensor:
    """Forces a scalar tensor into memory, so that compiled code computes it only once, not within each loop.

    The result is a view with explicit strides, which has this effect.
    """
    return scalar.as_strided((), ())
