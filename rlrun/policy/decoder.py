"""What stands between a network's heads and an action distribution or action values (torch)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.func import functional_call
from typing_extensions import override

from rlrun.nn.acting import ActingNetwork
from rlrun.nn.parameter_slot import ParameterSlot
from rlrun.nn.torch_network import TorchNetwork
from rlrun.policy.acting_network import acting_network
from rlrun.policy.action_masks import masked_tensor
from rlrun.policy.flat_parameters import FlatParameters


class Decoder(nn.Module, ABC):
    """Makes outputs [S, L, K] of what a network's heads put out; its parameters come with every call.

    Attributes:
        heads: The heads that it reads.
    """

    heads: ClassVar[tuple[str, ...]]

    @abstractmethod
    @override
    def forward(self, heads: Mapping[str, Tensor], columns: Mapping[str, Any]) -> Tensor:
        """Returns outputs [S, L, K].

        Args:
            heads: What the network puts out for rows of observations, [S, L, ...].
            columns: The rows' columns, of which `obs` and `actions` are looked at.
        """

    @abstractmethod
    def acting(self, network: ActingNetwork, slots: Mapping[str, ParameterSlot]) -> ActingNetwork:
        """Returns a network that acts like this one behind another, without weights.

        Args:
            network: The network.
            slots: Where the decoder's parameters lie in the vector that is loaded, by their names here.
        """


def policy_outputs(
    decoding: Decoding | None, views: Mapping[str, Tensor], heads: Mapping[str, Tensor], columns: Mapping[str, Any]
) -> Tensor:
    """Returns what describes action distributions, [S, L, K]: decoded heads, in which forbidden actions are masked.

    Args:
        decoding: The decoder after the heads; None where the head `outputs` is the description.
        views: The policy's parameters by name.
        heads: What the network puts out.
        columns: The rows' columns.
    """
    outputs = heads["outputs"] if decoding is None else decoding.outputs(views, heads, columns)
    return masked_tensor(outputs, columns["obs"])


class Decoding:
    """A decoder behind a network of a policy.

    Args:
        decoder: The decoder.
        prefix: What the names of its parameters begin with in the policy.
    """

    def __init__(self, decoder: Decoder, prefix: str) -> None:
        self.decoder = decoder
        self.prefix = prefix

    def outputs(self, views: Mapping[str, Tensor], heads: Mapping[str, Tensor], columns: Mapping[str, Any]) -> Tensor:
        """Returns outputs [S, L, K], with the parameters of the policy by name."""
        own = {name.removeprefix(self.prefix): view for name, view in views.items() if name.startswith(self.prefix)}
        found: Tensor = functional_call(self.decoder, own, (heads, columns))
        return found

    def acting(self, network: TorchNetwork, table: FlatParameters, *more_heads: str) -> ActingNetwork:
        """Returns what acts: the network with the heads that the decoder reads, and more, and the decoder."""
        inner = acting_network(network, table, heads=(*self.decoder.heads, *more_heads))
        return self.decoder.acting(inner, table.slots_of(self.prefix, 0))
