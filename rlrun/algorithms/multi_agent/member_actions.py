"""Differentiable actions of a team's actors, as inputs of centralized critics (torch)."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlrun.engine.policy.action_spaces.discrete import gumbel

NOISE = "action_noise"
"""Minibatch column of the online actors' action noise, [S, L, K, A]."""

NEXT_NOISE = "next_action_noise"
"""Minibatch column of the target actors' action noise in the next observations, [S, L, K, A]."""


class MemberActions(Protocol):
    """Converts actor outputs to differentiable actions, and recorded actions to the critics' inputs.

    Attributes:
        size: Size A of an action as a critic's input, and of an actor's output.
    """

    size: int

    def draws(self, generator: np.random.Generator, shape: tuple[int, int, int]) -> dict[str, NDArray[np.float32]]:
        """Samples the noise for the actions of K members in S sequences of L steps, as columns of a minibatch."""
        ...

    def recorded(self, actions: Tensor) -> Tensor:
        """Encodes recorded actions as inputs of the critics, [rows, steps, members, action_size]."""
        ...

    def made(self, outputs: Tensor, noise: Tensor | None) -> Tensor:
        """Differentiable actions [..., A] from the outputs of actors.

        Args:
            outputs: Outputs of the actors, [..., A].
            noise: Noise column of the minibatch, [..., A]; None for deterministic actions.
        """
        ...


class GumbelSoftmaxActions:
    """Straight-through Gumbel-softmax: one-hot actions with the gradient of the softmax.

    Args:
        num_actions: Number of Discrete actions, A.

    Source:
        Jang et al., arXiv:1611.01144, section 2.2, straight-through, with temperature 1.
    """

    def __init__(self, num_actions: int) -> None:
        self.size = num_actions

    def draws(self, generator: np.random.Generator, shape: tuple[int, int, int]) -> dict[str, NDArray[np.float32]]:
        """Samples standard Gumbel noise for online and target actors, [rows, steps, members, action_size] each."""
        return {name: gumbel(generator, (*shape, self.size)) for name in (NOISE, NEXT_NOISE)}

    def recorded(self, actions: Tensor) -> Tensor:
        """One-hot encoding [rows, steps, members, action_size] of Discrete actions [rows, steps, members]."""
        choices = torch.arange(self.size, device=actions.device)
        return (actions.unsqueeze(-1) == choices).float()

    def made(self, outputs: Tensor, noise: Tensor | None) -> Tensor:
        """Samples one-hot actions [..., action_size] from logits, with straight-through gradients."""
        assert noise is not None
        soft = (outputs + noise).softmax(-1)
        return self.recorded(soft.argmax(-1)) + soft - soft.detach()


class SquashedActions:
    """Deterministic tanh actions in a bounded Box, scaled to [-1, 1], as inputs of centralized critics.

    Args:
        size: Dimension of the Box, A.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def draws(self, generator: np.random.Generator, shape: tuple[int, int, int]) -> dict[str, NDArray[np.float32]]:
        """Samples no noise, since the actions are deterministic."""
        return {}

    def recorded(self, actions: Tensor) -> Tensor:
        """Returns recorded actions [rows, steps, members, action_size] unchanged, since they are in [-1, 1] already."""
        return actions

    def made(self, outputs: Tensor, noise: Tensor | None) -> Tensor:
        """Tanh of the actors' outputs: actions [..., action_size] in [-1, 1]."""
        return outputs.tanh()
