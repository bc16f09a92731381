"""From a policy's networks to what acts on a worker: NumPy where it can be, torch elsewhere (torch)."""

from __future__ import annotations

from rlrun.nn.acting import ActingNetwork
from rlrun.nn.network_module import NetworkModule
from rlrun.nn.network_spec import NetworkSpec
from rlrun.nn.noisy_net import NoisyNet
from rlrun.nn.numpy_network import NumpyNetwork
from rlrun.nn.torch_network import TorchActingNetwork, TorchNetwork
from rlrun.policy.flat_parameters import FlatParameters


def acting_network(
    network: TorchNetwork, table: FlatParameters, *, start: int = 0, heads: tuple[str, ...] = ()
) -> ActingNetwork:
    """Returns what acts like a network, without weights.

    Args:
        network: The network.
        table: Where the policy's parameters lie in its flat vector.
        start: Where the slice of it begins that acts.
        heads: The heads that are needed; none for all. In torch all of them are there.
    """
    spec = dense_spec(network)
    if spec is None:
        offset, _ = table.range_under(network.prefix)
        module = network.module
        return TorchActingNetwork(
            network, offset - start, module.spec.state_size if isinstance(module, NetworkModule) else 0
        )
    prefix = f"{network.prefix}net." if isinstance(network.module, NoisyNet) else network.prefix
    return NumpyNetwork(spec.only(*heads) if heads else spec, table.slots_of(prefix, start))


def dense_spec(network: TorchNetwork) -> NetworkSpec | None:
    """Returns the spec of a network that NumPy can run, None for others."""
    module = network.module.net if isinstance(network.module, NoisyNet) else network.module
    return module.spec if isinstance(module, NetworkModule) and module.spec.is_dense else None
