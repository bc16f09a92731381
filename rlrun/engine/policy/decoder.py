"""Decoders: modules that convert the outputs of network heads to action distributions or action values (torch)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.func import functional_call
from typing_extensions import override

from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.nn.parameter_slot import ParameterSlot
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.acting_network import acting_network
from rlrun.engine.policy.action_masks import masked_tensor
from rlrun.engine.policy.flat_parameters import FlatParameters


class Decoder(nn.Module, ABC):
    """Module that converts the outputs of several network heads to the outputs of the policy.

    Inputs and outputs are batches [S, L, ...] of S sequences with L steps. Parameters are passed to each call
    (`torch.func.functional_call`).

    Attributes:
        heads: Names of the heads that the decoder reads.
    """

    heads: ClassVar[tuple[str, ...]]

    @abstractmethod
    @override
    def forward(self, heads: Mapping[str, Tensor], columns: Mapping[str, Any]) -> Tensor:
        """Returns the parameters of the action distributions, or action values, [S, L, K] for S sequences of L steps.

        Args:
            heads: Outputs of the network's heads, [S, L, ...].
            columns: Columns of the batch; the decoder reads `obs` and `actions`.
        """

    @abstractmethod
    def acting(self, network: ActingNetwork, slots: Mapping[str, ParameterSlot]) -> ActingNetwork:
        """Creates the acting network that applies this decoder to another network's heads; weights are loaded later.

        Args:
            network: The acting network whose heads are decoded.
            slots: Offset and shape of each of the decoder's parameters in the flat vector that `load` receives, by
                name.
        """


def policy_outputs(
    decoding: Decoding | None, views: Mapping[str, Tensor], heads: Mapping[str, Tensor], columns: Mapping[str, Any]
) -> Tensor:
    """Returns the parameters of action distributions, [S, L, K] for S sequences of L steps, after action masking.

    Args:
        decoding: Decoder of the heads; None if the head `outputs` already parametrizes the distributions.
        views: The policy's parameters by name.
        heads: Outputs of the network's heads, [S, L, ...].
        columns: Columns of the batch.
    """
    outputs = heads["outputs"] if decoding is None else decoding.outputs(views, heads, columns)
    return masked_tensor(outputs, columns["obs"])


def acting_outputs(
    network: TorchNetwork, decoding: Decoding | None, table: FlatParameters, *more_heads: str
) -> ActingNetwork:
    """Creates the network that computes action distributions in rollout workers, including a decoder if needed.

    Weights are loaded later.

    Args:
        network: The torch network.
        decoding: Decoder of the heads; None if the head `outputs` already parametrizes the distributions.
        table: Names, shapes and offsets of the policy's parameters in the flat vector that holds all of them.
        more_heads: Additional heads to compute.
    """
    if decoding is None:
        return acting_network(network, table, heads=("outputs", *more_heads))
    return decoding.acting(network, table, *more_heads)


class Decoding:
    """Decoder of network heads, together with the prefix of its parameters' names in the policy.

    Args:
        decoder: The decoder.
        prefix: Prefix of the decoder's parameter names in the policy.
    """

    def __init__(self, decoder: Decoder, prefix: str) -> None:
        self.decoder = decoder
        self.prefix = prefix

    def outputs(self, views: Mapping[str, Tensor], heads: Mapping[str, Tensor], columns: Mapping[str, Any]) -> Tensor:
        """Applies the decoder to the heads' outputs for S sequences of L steps; `views` are the policy's parameters."""
        own = {name.removeprefix(self.prefix): view for name, view in views.items() if name.startswith(self.prefix)}
        found: Tensor = functional_call(self.decoder, own, (heads, columns))
        return found

    def acting(self, network: TorchNetwork, table: FlatParameters, *more_heads: str) -> ActingNetwork:
        """Creates the acting network that computes the decoder's heads and `more_heads`, and applies the decoder."""
        inner = acting_network(network, table, heads=(*self.decoder.heads, *more_heads))
        return self.decoder.acting(inner, table.slots_of(self.prefix, 0))
