"""What a learner minimises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlrun.data.sample_batch import SampleBatch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Loss:
    """What a loss function returns.

    Attributes:
        total: The number to minimise, [].
        statistics: Numbers to report, each [], by name; the learner averages them over minibatches.
        priorities: How much is to be learned from each row still, [S], for a prioritized replay; None if the loss
            says nothing of it. At most one objective of a learner gives them.
    """

    total: Tensor
    statistics: Mapping[str, Tensor]
    priorities: Tensor | None = None


LossFunction = Callable[[Any, SampleBatch, Mapping[str, "Tensor"]], Loss]
"""From a policy's outputs, rows of experience [S, L] and the scheduled settings (each []) to a loss."""


@dataclass(frozen=True)
class Objective:
    """One loss, the parameters it moves, and how.

    A learner runs its objectives in order at every minibatch, each on the parameters that the ones before it left.

    Attributes:
        name: Name of the objective, unique in its learner.
        loss: The loss function.
        lr: Name of the scheduled setting that is its learning rate.
        parameters: Prefix of the names of the parameters it moves; they lie side by side. "" for all.
        every: It runs at every so many-th minibatch, from the first on.
        max_grad_norm: Bound of the gradient's norm, or None.
        epsilon: Added to the root of the second moment (Adam).
    """

    name: str
    loss: LossFunction
    lr: str = "lr"
    parameters: str = ""
    every: int = 1
    max_grad_norm: float | None = None
    epsilon: float = 1e-5
