"""Differentiable actions of a team's members, as inputs of their critics (torch)."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlrun.policy.action_spaces.discrete import gumbel

NOISE = "action_noise"
"""Column of a minibatch with the noise of the present actors' actions, [S, L, K, A]."""

NEXT_NOISE = "next_action_noise"
"""The same of the target actors' actions in the next observations."""


class MemberActions(Protocol):
    """Converts actor outputs to differentiable actions, and recorded actions to the critics' inputs.

    Attributes:
        size: A, size of an action as the critics see it, and of an actor's output.
    """

    size: int

    def draws(self, generator: np.random.Generator, shape: tuple[int, int, int]) -> dict[str, NDArray[np.float32]]:
        """Returns the columns of noise that minibatches of shape [S, L, K] carry."""
        ...

    def recorded(self, actions: Tensor) -> Tensor:
        """Returns recorded actions [S, L, K, ...] as critics see them, [S, L, K, A]."""
        ...

    def made(self, outputs: Tensor, noise: Tensor | None) -> Tensor:
        """Returns differentiable actions of actors' outputs [..., A].

        Args:
            outputs: The outputs.
            noise: The minibatch's noise, [..., A]; None if it carries none.
        """
        ...


class GumbelSoftmaxActions:
    """Straight-through Gumbel-softmax: one-hot choices with the gradient of the softmax.

    Args:
        num_actions: A.

    Source:
        Jang et al., arXiv:1611.01144, section 2.2, straight-through, with temperature 1.
    """

    def __init__(self, num_actions: int) -> None:
        self.size = num_actions

    def draws(self, generator: np.random.Generator, shape: tuple[int, int, int]) -> dict[str, NDArray[np.float32]]:
        """Returns standard Gumbel noise."""
        return {name: gumbel(generator, (*shape, self.size)) for name in (NOISE, NEXT_NOISE)}

    def recorded(self, actions: Tensor) -> Tensor:
        """Returns choices [S, L, K] as one-hot numbers."""
        choices = torch.arange(self.size, device=actions.device)
        return (actions.unsqueeze(-1) == choices).float()

    def made(self, outputs: Tensor, noise: Tensor | None) -> Tensor:
        """Returns one-hot choices drawn from logits."""
        assert noise is not None
        soft = (outputs + noise).softmax(-1)
        return self.recorded(soft.argmax(-1)) + soft - soft.detach()


class SquashedActions:
    """Deterministic actions in a bounded Box, in units of the bounds.

    Args:
        size: Numbers of an action.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def draws(self, generator: np.random.Generator, shape: tuple[int, int, int]) -> dict[str, NDArray[np.float32]]:
        """Returns no columns: the actions are deterministic."""
        return {}

    def recorded(self, actions: Tensor) -> Tensor:
        """Returns the actions: they are recorded in units of the bounds."""
        return actions

    def made(self, outputs: Tensor, noise: Tensor | None) -> Tensor:
        """Returns actions between -1 and 1."""
        return outputs.tanh()
