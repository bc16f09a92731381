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
        nn.utils.vector_to_parameters(torch.from_numpy(flat.copy()), self.module.parameters())

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
        nn.utils.vector_to_parameters(torch.from_numpy(flat.copy()), self.module.parameters())

    def outputs(self, observations: Any) -> Floats:
        """Returns what describes the returns of all actions, [B, A * K]."""
        with torch.inference_mode():
            outputs: Floats = self.module(map_tree(torch.as_tensor, observations)).numpy()
        return outputs


class TorchPart:
    """A part of a policy's networks in torch, on the CPU."""

    def __init__(self, module: nn.Module, start: int, size: int) -> None:
        """Takes the part, which is its own from here on, and where its parameters lie in the flat vector."""
        self.module = module.cpu().requires_grad_(False)
        self.start = start
        self.size = size

    def load(self, flat: Floats) -> None:
        """Takes new parameters [P], of which the part's own are some."""
        own = torch.from_numpy(flat[self.start : self.start + self.size].copy())
        nn.utils.vector_to_parameters(own, self.module.parameters())


class TorchActor(TorchPart):
    """An actor in torch, on the CPU; critics that judge it are left out."""

    def outputs(self, observations: Any) -> Floats:
        """Returns outputs [B, K]."""
        with torch.inference_mode():
            outputs: Floats = self.module(map_tree(torch.as_tensor, observations)).numpy()
        return outputs


class TorchCritic(TorchPart):
    """A critic of observation and action in torch, on the CPU; other critics are left out."""

    def values(self, observations: Any, actions: Floats) -> Floats:
        """Returns values [N] of observations [N, ...] and actions [N, D]."""
        with torch.inference_mode():
            outputs = self.module(map_tree(torch.as_tensor, observations), torch.as_tensor(actions))
        values: Floats = outputs[:, 0].numpy()
        return values
