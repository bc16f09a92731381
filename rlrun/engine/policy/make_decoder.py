"""Factories of a policy's network: heads, and an optional decoder for action parts or embeddings (torch)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import override

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.nn.encoders import ACTIVATIONS, HIDDEN_GAIN, initialize_orthogonally
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.network_module import NetworkModule, initialize, seeded
from rlrun.engine.nn.network_spec import Head, LogStds, NetworkSpec
from rlrun.engine.nn.observation_leaves import ObservationTree
from rlrun.engine.nn.parameter_slot import ParameterSlot
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.action_embeddings import EmbeddedOutputs
from rlrun.engine.policy.action_spaces.autoregressive import CHAIN, AutoregressiveOutputs, chain_parts, encoded_width
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.action_spaces.gaussian_box import GaussianBoxActions
from rlrun.engine.policy.action_spaces.make import AnyActions
from rlrun.engine.policy.action_spaces.product import Part
from rlrun.engine.policy.decoder import Decoder, Decoding


def policy_heads(actions: AnyActions, model: ModelConfig) -> tuple[Head, ...]:
    """Head specs of a network for the action distribution.

    Raises:
        UsageError: The model is autoregressive, but the action has only one part.
    """
    if model.action_embeddings is not None:
        return (Head("outputs", "policy_head", model.decoder_width, gain=0.01),)
    log_stds = None
    if actions.num_log_stds:
        log_stds = LogStds(actions.num_log_stds, model.log_std_init, state_dependent=model.use_sde)
    alone = Head("outputs", "policy_head", actions.num_outputs, gain=0.01, log_stds=log_stds)
    if not model.autoregressive:
        return (alone,)
    hidden = (len(chain_parts(actions)) - 1) * model.decoder_width
    return alone, Head(CHAIN, "chain_head", hidden, gain=HIDDEN_GAIN)


class DecodedNetwork(NamedTuple):
    """Network with an optional decoder of its heads.

    Attributes:
        module: Module that holds all parameters, including the decoder's.
        network: The network, up to its heads.
        decoding: Decoder of the heads; None for none.
    """

    module: nn.Module
    network: TorchNetwork
    decoding: Decoding | None


def decoded_network(
    spec: NetworkSpec, leaves: ObservationTree, actions: AnyActions, model: ModelConfig, seed: int
) -> DecodedNetwork:
    """Creates the network of an action distribution, with the heads of `policy_heads` and optional additional heads.

    Raises:
        UsageError: gSDE is combined with trained encoders or attention.
    """
    if model.use_sde and not spec.is_dense:
        raise UsageError(
            "model.use_sde: noise as a function of encoders with parameters, as of images, or of attention is not "
            "supported; leave it out"
        )
    with seeded(seed):
        own = NetworkModule(spec)
        decoder = make_decoder(leaves, actions, model, seed)
    initialize([own], own, orthogonal=model.orthogonal_init, seed=seed)
    if decoder is None:
        return DecodedNetwork(own, TorchNetwork(own), None)
    module = nn.ModuleDict({"network": own, "decoder": decoder})
    return DecodedNetwork(module, TorchNetwork(own, prefix="network."), Decoding(decoder, "decoder."))


def check_state_dependent_noise(actions: AnyActions, model: ModelConfig) -> None:
    """Validates that gSDE is used only with continuous actions and with rlrun's built-in networks.

    Raises:
        UsageError: gSDE is set for other actions or networks.
    """
    if model.use_sde and (not isinstance(actions, GaussianBoxActions) or model.module is not None):
        raise UsageError("model.use_sde: only the continuous actions of rlrun's own networks are explored that way")


def make_decoder(leaves: ObservationTree, actions: AnyActions, model: ModelConfig, seed: int) -> Decoder | None:
    """Creates the decoder that maps policy heads to the action distribution; None if no decoder is needed.

    Args:
        leaves: The tree of `ObservationLeaf`.
        actions: The policy's action space.
        model: The model settings.
        seed: Seed of the initial parameters.
    """
    if model.autoregressive:
        parts, width = chain_parts(actions), model.decoder_width
        return Autoregressive(actions, parts, model, width, seed=seed)
    return embedding_decoder(leaves, model, seed)


def embedding_decoder(leaves: ObservationTree, model: ModelConfig, seed: int) -> EmbeddedActions | None:
    """Creates the decoder with action embeddings; None without `model.action_embeddings`."""
    key = model.action_embeddings
    if key is None:
        return None
    return EmbeddedActions(key, leaves[key].shape[1], model, model.decoder_width, seed=seed)


class EmbeddedActions(Decoder):
    """Decoder that outputs scaled dot products of the observation embedding (head `outputs`) and action embeddings.

    Args:
        key: Part of the observation with the actions' features, [S, L, K, F].
        features: F, number of features per action.
        model: Settings with the activation and the initialisation.
        width: D, width of the embeddings and of the hidden layer.
        seed: Seed of the initial parameters.
    """

    heads = ("outputs",)

    def __init__(self, key: str, features: int, model: ModelConfig, width: int, *, seed: int) -> None:
        super().__init__()
        self.key = key
        self.model = model
        self.width = width
        self.hidden = nn.Linear(features, width)
        self.embedding = nn.Linear(width, width)
        self.activation = ACTIVATIONS[model.activation]()
        if model.orthogonal_init:
            initialize_orthogonally(self, HIDDEN_GAIN, torch.Generator().manual_seed(seed))

    @override
    def forward(self, heads: Mapping[str, Tensor], columns: Mapping[str, Any]) -> Tensor:
        """Logits or Q values of the listed actions, [S, L, K]."""
        embedded = self.embedding(self.activation(self.hidden(columns["obs"][self.key].float())))
        fit: Tensor = (embedded @ heads["outputs"].unsqueeze(-1)).squeeze(-1) / math.sqrt(self.width)
        return fit

    @override
    def acting(self, network: ActingNetwork, slots: Mapping[str, ParameterSlot]) -> ActingNetwork:
        """Creates the acting network with action embeddings, with weights not yet loaded."""
        return EmbeddedOutputs(network, self.key, self.model.activation, slots)


FIRST_GAIN = 0.01
"""Init gain of the output layers of the corrections: initially, parts are nearly independent of previous parts."""


class Autoregressive(Decoder):
    """Autoregressive decoder: maps the heads `outputs` and `chain` to outputs of each part, given the previous parts.

    Args:
        actions: The policy's action space.
        parts: Parts of an action, first to last.
        model: Settings with the activation and the initialisation.
        hidden: H, width of each hidden layer.
        seed: Seed of the initial parameters.
    """

    heads = ("outputs", CHAIN)

    def __init__(
        self,
        actions: AnyActions,
        parts: Sequence[Part],
        model: ModelConfig,
        hidden: int,
        *,
        seed: int,
    ) -> None:
        super().__init__()
        self.actions = actions
        self.parts = tuple(parts)
        self.model = model
        widths = [encoded_width(part) for part in parts]
        behind = range(1, len(parts))
        self.before = nn.ModuleList(nn.Linear(sum(widths[:i]), hidden, bias=False) for i in behind)
        self.given = nn.ModuleList(nn.Linear(hidden, parts[i].outputs.stop - parts[i].outputs.start) for i in behind)
        if model.orthogonal_init:
            generator = torch.Generator().manual_seed(seed)
            initialize_orthogonally(self.before, HIDDEN_GAIN, generator)
            initialize_orthogonally(self.given, FIRST_GAIN, generator)
        self.activation = ACTIVATIONS[model.activation]()

    @override
    def forward(self, heads: Mapping[str, Tensor], columns: Mapping[str, Any]) -> Tensor:
        """Outputs of the parts' conditional distributions given the batch's actions (teacher forcing), [S, L, K]."""
        alone, end = heads["outputs"], self.actions.num_outputs - self.actions.num_log_stds
        hidden, actions = heads[CHAIN].chunk(len(self.parts) - 1, -1), columns["actions"]
        before = torch.cat([_encoded(part, actions) for part in self.parts], -1)
        outputs = {self.parts[0].outputs.start: alone[..., self.parts[0].outputs]}
        for i, part in enumerate(self.parts[1:]):
            seen = self.before[i](before[..., : self.before[i].in_features])
            given = self.given[i](self.activation(hidden[i] + seen))
            outputs[part.outputs.start] = alone[..., part.outputs] + given
        return torch.cat([*(outputs[start] for start in sorted(outputs)), alone[..., end:]], -1)

    @override
    def acting(self, network: ActingNetwork, slots: Mapping[str, ParameterSlot]) -> ActingNetwork:
        """Creates the acting network that samples the parts in order, with weights not yet loaded."""
        return AutoregressiveOutputs(
            network,
            self.parts,
            self.actions.action_shape,
            self.actions.action_dtype,
            self.model.activation,
            slots,
        )


def _encoded(part: Part, actions: Tensor) -> Tensor:
    """Encoding of a part as input to later parts, [S, L, width]: one-hot for Discrete, raw numbers for others."""
    own = actions[..., part.columns]
    if isinstance(part.actions, DiscreteActions):
        return (own == torch.arange(part.actions.num_outputs, device=own.device)).float()
    return own.float()
