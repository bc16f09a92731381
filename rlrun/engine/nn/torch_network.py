"""Wrappers that call torch modules with parameters passed as arguments, for learning and acting."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from rlrun.engine.data.tree import leaves, map_tree

Floats = NDArray[np.float32]


class WrappedModule(nn.Module):
    """Base class of torch modules that wrap another module and add parameters, such as the scale of noise.

    Attributes:
        net: The inner module; names of its parameters begin with `net.`.
    """

    net: nn.Module


class TorchNetwork:
    """Calls a torch module, with parameters passed as an argument or with the module's own parameters.

    Args:
        module: A `NetworkModule`, a user's module, or a `NoisyNet` around one of them.
        custom_heads: Names of the outputs of a user's module, which receives observations [N, ...]; empty for other
            modules.
        prefix: Prefix of the module's parameter names in the policy.
    """

    def __init__(self, module: nn.Module, *, custom_heads: tuple[str, ...] = (), prefix: str = "") -> None:
        self.module = module
        self.custom_heads = custom_heads
        self.prefix = prefix
        named = module.named_parameters(remove_duplicate=False)
        self._has_tied_parameters = sum(1 for _ in named) > sum(1 for _ in module.parameters())

    def __call__(
        self,
        views: Mapping[str, Tensor] | None,
        inputs: Mapping[str, Any],
        state: Tensor | None = None,
        episode_starts: Tensor | None = None,
        steps: Tensor | None = None,
    ) -> tuple[dict[str, Tensor], Tensor | None]:
        """Runs the forward pass over sequences of consecutive steps, as in `NetworkModule.forward`.

        Args:
            views: The policy's parameters by name; None for the module's own.
            inputs: `obs`, a tree of [S, L, ...], and further inputs [S, L, width].
            state: Recurrent state before the first steps, [S, state_size]; None without a core.
            episode_starts: Whether an episode begins with a step, [S, L].
            steps: With a core: indices of the steps in each sequence at which heads are evaluated, [S, N]; None for
                all.

        Returns:
            Outputs by head, [S, L, K] or [S, N, K] of float32, and the recurrent state after the last steps.
        """
        if not self.custom_heads:
            heads, state = self._run(views, inputs, state, episode_starts, *(() if steps is None else (steps,)))
            return heads, state
        rows, length = leaves(inputs["obs"])[0].shape[:2]
        returned = self._run(views, map_tree(lambda leaf: leaf.flatten(0, 1), inputs["obs"]))
        parts = returned if isinstance(returned, tuple) else (returned,)
        named = zip(self.custom_heads, parts, strict=True)
        return {name: part.float().view(rows, length, -1) for name, part in named}, None

    def _run(self, views: Mapping[str, Tensor] | None, *arguments: Any) -> Any:
        if views is None:
            return self.module(*arguments)
        start = self.prefix
        own = {name.removeprefix(start): view for name, view in views.items() if name.startswith(start)}
        return functional_call(self.module, own, arguments, tie_weights=self._has_tied_parameters)


class TorchActingNetwork:
    """Acting network in torch, for networks that NumPy cannot run: encoders with parameters, users' modules.

    Args:
        network: Network to copy.
        offset: Index of the network's first parameter in the flat vector of all parameters that acting needs.
        state_size: Size of the recurrent state per env slot.
    """

    def __init__(self, network: TorchNetwork, offset: int, state_size: int = 0) -> None:
        self.network = copy.deepcopy(network)
        self.network.module.cpu().requires_grad_(False)
        self.offset = offset
        self.size = sum(parameter.numel() for parameter in network.module.parameters())
        self.state_size = state_size
        self._device = "cpu"

    def to(self, device: str) -> None:
        """Moves the parameters to a device, on which all further calls run."""
        self.network.module.to(device)
        self._device = device

    def load(self, flat: Floats) -> None:
        """Loads the network's parameters from the flat vector of all parameters that acting needs."""
        own = torch.from_numpy(flat[self.offset : self.offset + self.size].copy()).to(self._device)
        nn.utils.vector_to_parameters(own, self.network.module.parameters())

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[dict[str, Floats], Floats | None]:
        """Runs the forward pass of one env step, as in `NumpyNetwork`, without gSDE noise."""
        device = self._device
        with torch.inference_mode():
            heads, after = self.forward(
                {
                    name: map_tree(lambda leaf: torch.as_tensor(leaf, device=device), tree)
                    for name, tree in inputs.items()
                },
                None if state is None else torch.as_tensor(state, device=device),
                None if episode_starts is None else torch.as_tensor(episode_starts, device=device),
            )
        found = {name: outputs.numpy(force=True) for name, outputs in heads.items()}
        return found, None if after is None else after.numpy(force=True)

    def forward(
        self, inputs: Mapping[str, Any], state: Tensor | None = None, episode_starts: Tensor | None = None
    ) -> tuple[dict[str, Tensor], Tensor | None]:
        """Runs one env step for B env slots, with inputs and outputs as tensors."""
        if state is not None and episode_starts is None:
            episode_starts = torch.zeros(len(state), dtype=torch.bool, device=state.device)
        heads, after = self.network(
            None,
            {name: map_tree(lambda leaf: leaf[:, None], tree) for name, tree in inputs.items()},
            state,
            None if state is None or episode_starts is None else episode_starts[:, None],
        )
        return {name: outputs[:, 0] for name, outputs in heads.items()}, after


class TorchModule:
    """Callable that runs a torch module on the CPU, without gradients; takes arrays and returns an array.

    Args:
        module: Module to copy.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = copy.deepcopy(module).cpu().requires_grad_(False)

    def __call__(self, *arrays: NDArray[Any]) -> Floats:
        """Runs the module."""
        with torch.inference_mode():
            found: Floats = self.module(*map(torch.from_numpy, arrays)).numpy()
        return found
