"""Creation of the networks that rollout workers act with, in NumPy where supported and otherwise in torch."""

from __future__ import annotations

from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.nn.kernel_network import KernelNetwork
from rlrun.engine.nn.network_module import NetworkModule
from rlrun.engine.nn.network_spec import NetworkSpec
from rlrun.engine.nn.numpy_network import NumpyNetwork
from rlrun.engine.nn.torch_network import TorchActingNetwork, TorchNetwork, WrappedModule
from rlrun.engine.policy.action_masks import MaskedOutputs
from rlrun.engine.policy.exploration.sampling import SampledActions
from rlrun.engine.policy.flat_parameters import FlatParameters


def acting_network(
    network: TorchNetwork, table: FlatParameters, *, start: int = 0, heads: tuple[str, ...] = ()
) -> ActingNetwork:
    """Creates the rollout workers' version of a torch network, in NumPy if possible; its weights are loaded later.

    Args:
        network: The torch network.
        table: Names, shapes and offsets of the policy's parameters in the flat vector that holds all of them.
        start: Offset, in the flat vector, of the parameters needed for acting; workers receive only this slice.
        heads: Names of the output heads to compute; empty for all. Networks run by torch always compute all heads.
    """
    spec = dense_spec(network, heads)
    if spec is None:
        offset, _ = table.range_under(network.prefix)
        module = network.module
        return TorchActingNetwork(
            network, offset - start, module.spec.state_size if isinstance(module, NetworkModule) else 0
        )
    prefix = f"{network.prefix}net." if isinstance(network.module, WrappedModule) else network.prefix
    return NumpyNetwork(spec, table.slots_of(prefix, start))


def in_kernels(network: ActingNetwork) -> ActingNetwork:
    """Converts a NumPy network to an equivalent one that runs in C kernels, if possible.

    Returns the network unchanged unless it makes the same sequence of NumPy calls at every step.
    """
    inner = network
    while isinstance(inner, MaskedOutputs | SampledActions):
        inner = inner.network
    return KernelNetwork(network) if isinstance(inner, NumpyNetwork) else network


def dense_spec(network: TorchNetwork, heads: tuple[str, ...]) -> NetworkSpec | None:
    """Returns the description of a network that has only dense layers, which NumPy can run; None for other networks.

    Args:
        network: The torch network to describe.
        heads: Names of the output heads to which the description is restricted; empty for all.
    """
    module = network.module.net if isinstance(network.module, WrappedModule) else network.module
    if not isinstance(module, NetworkModule):
        return None
    spec = module.spec.only(*heads) if heads else module.spec
    return spec if spec.is_dense else None
