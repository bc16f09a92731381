"""Adam with a learning rate that decays linearly to 0, for the fits in off-policy evaluation (torch)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from rlrun.engine.learner.optimizers import STEPS, Adam

EPSILON = 1e-8


class AnnealedAdam:
    """Adam optimizer for a list of tensors, with linear decay of the learning rate.

    Args:
        parameters: The tensors, which require gradients.
        lr: Learning rate of the first step.
        sgd_steps: Number of steps after which the learning rate is 0.
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float, sgd_steps: int) -> None:
        self._parameters = list(parameters)
        self._lr = lr
        self._sgd_steps = sgd_steps
        self._step = 0
        self._adam = Adam(EPSILON)
        self._states = [
            {part: torch.zeros(()) if part == STEPS else torch.zeros_like(each) for part in self._adam.parts}
            for each in self._parameters
        ]

    def descend(self, loss: Tensor) -> None:
        """Takes a step down the gradient of a loss [], in place."""
        gradients = torch.autograd.grad(loss, self._parameters)
        lr = torch.tensor(self._lr * (1 - self._step / self._sgd_steps))
        with torch.no_grad():
            for parameter, gradient, state in zip(self._parameters, gradients, self._states, strict=True):
                self._adam.step(parameter, gradient, state, lr)
        self._step += 1
