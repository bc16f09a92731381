"""Acting in torch, for networks with convolutions and for users' own."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rlrun.data.tree import map_tree

Floats = NDArray[np.float32]


class TorchActorCritic:
    """An actor-critic network in torch, on the CPU; values come with every forward pass."""

    def __init__(self, module: nn.Module) -> None:
        """Takes the network, which is its own from here on."""
        self.module = module.cpu().requires_grad_(False)

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P]."""
        nn.utils.vector_to_parameters(torch.from_numpy(flat), self.module.parameters())

    def outputs(self, observations: Any) -> tuple[Floats, Floats | None]:
        """Returns outputs [B, K] and values [B]."""
        with torch.inference_mode():
            outputs, values = self.module(map_tree(torch.as_tensor, observations))
        return outputs.numpy(), values.numpy()

    def values(self, observations: Any) -> Floats:
        """Returns values [N]."""
        values = self.outputs(observations)[1]
        assert values is not None
        return values


class TorchQ:
    """A Q network in torch, on the CPU."""

    def __init__(self, module: nn.Module) -> None:
        """Takes the network, which is its own from here on."""
        self.module = module.cpu().requires_grad_(False)

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P]."""
        nn.utils.vector_to_parameters(torch.from_numpy(flat), self.module.parameters())

    def values(self, observations: Any) -> Floats:
        """Returns the values of all actions, [B, A]."""
        with torch.inference_mode():
            values: Floats = self.module(map_tree(torch.as_tensor, observations)).numpy()
        return values
