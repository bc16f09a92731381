"""Torch modules that hold critics (Q functions), actors and other networks, without shared parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import torch
from torch import nn

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import CriticsModelConfig, ModelConfig
from rlrun.engine.nn.network_module import NetworkModule, initialize, seeded
from rlrun.engine.nn.network_spec import Head, LogStds, NetworkSpec, Tower, core_of, network_spec
from rlrun.engine.nn.observation_leaves import ObservationTree


def actor_spec(
    leaves: ObservationTree, model: ModelConfig, num_outputs: int, log_stds: LogStds | None = None
) -> NetworkSpec:
    """Creates the spec (layers and sizes) of an actor network.

    Args:
        leaves: Entries of the observation with their encodings: a tree of `ObservationLeaf`.
        model: Settings of the layers.
        num_outputs: Size of the output, K.
        log_stds: Description of additional outputs, the log standard deviations of state-dependent exploration; None
            for no such outputs.
    """
    head = Head("outputs", "head", num_outputs, gain=0.01, log_stds=log_stds)
    return network_spec(leaves, model, Tower((head,)), core=core_of(model))


def critic_spec(
    leaves: ObservationTree, model: CriticsModelConfig, num_outputs: int = 1, action_size: int = 0
) -> NetworkSpec:
    """Creates the spec (layers and sizes) of a critic: Q(s, a), Q(s, .) with one output per action, or V(s).

    In a recurrent network, actions are concatenated with the core's outputs, and further dense layers of the configured
    widths follow. The recurrent state is thus a function of observations alone, and any action can be evaluated at
    every step (Ni et al., arXiv:2110.05038).

    Args:
        leaves: Entries of the observation with their encodings: a tree of `ObservationLeaf`.
        model: Settings of the layers.
        num_outputs: Size of the output.
        action_size: Size D of the input action; 0 for a function of the state only.
    """
    vectors = (("actions", action_size),) if action_size else ()
    hiddens = None if model.core is None else model.dense_widths
    tower = Tower((Head("outputs", "head", num_outputs, hiddens=hiddens),))
    spec = network_spec(leaves, model, tower, vectors=vectors, core=core_of(model))
    return replace(spec, normalization=model.critic_normalization or spec.normalization)


class ActorQNets(nn.Module):
    """Torch module of critics, other networks such as an actor, and optionally an entropy temperature.

    The parameters of each network are contiguous in the flat parameter vector.

    Args:
        critics: Specs of the critics.
        others: Specs of the other networks by name; a sequence of specs creates a list of networks.
        model: Settings of all networks.
        seed: Seed for the initial weights.
        initial_alpha: Initial temperature; None for no temperature.
        scalars: Initial values of additional learned scalars, by name.
        network: Function that creates a network from its spec.

    Attributes:
        critics: Critic networks. The other networks are attributes under their own names.
        log_alpha: Logarithm of the entropy temperature, [1]; None if there is no temperature. The additional scalars,
            [1] each, are also attributes under their own names.

    Raises:
        UsageError: If the model is a custom network.
    """

    def __init__(
        self,
        critics: Sequence[NetworkSpec],
        others: Mapping[str, NetworkSpec | Sequence[NetworkSpec]],
        model: ModelConfig,
        *,
        seed: int,
        initial_alpha: float | None = None,
        scalars: Mapping[str, float] = MappingProxyType({}),
        network: type[NetworkModule] = NetworkModule,
    ) -> None:
        if model.module is not None:
            raise UsageError("model.module: rlrun builds the actor of this algorithm itself; leave module null")
        super().__init__()
        with seeded(seed):
            self.critics = nn.ModuleList(map(network, critics))
            for name, spec in others.items():
                part = network(spec) if isinstance(spec, NetworkSpec) else nn.ModuleList(map(network, spec))
                self.add_module(name, part)
        networks = [module for module in self.modules() if isinstance(module, NetworkModule)]
        # The actors' output layers are initialized before the critics'.
        ordered = networks[len(critics) :] + networks[: len(critics)]
        initialize(ordered, self, orthogonal=model.orthogonal_init, seed=seed)
        self.log_alpha = None if initial_alpha is None else nn.Parameter(torch.tensor([initial_alpha]).log())
        for name, value in scalars.items():
            self.register_parameter(name, nn.Parameter(torch.tensor([value])))
