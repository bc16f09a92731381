"""Creation of a policy's network heads, and of decoders for autoregressive actions or action embeddings (torch)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import nn

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.network_module import NetworkModule, initialize, seeded
from rlrun.engine.nn.network_spec import Head, LogStds, NetworkSpec
from rlrun.engine.nn.observation_leaves import ObservationTree
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.action_spaces.make import ACTION_SPACES
from rlrun.engine.policy.decoder import Decoder, Decoding
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.policy.action_spaces.make import AnyActions

DECODERS = {
    "autoregressive": "rlrun.engine.policy.autoregressive_decoder:autoregressive_decoder",
    "autoregressive head": "rlrun.engine.policy.autoregressive_decoder:chain_head",
    "embeddings": "rlrun.engine.policy.embedding_decoder:EmbeddedActions",
}
"""Import paths of the decoders, and of the function that describes an additional head."""


def policy_heads(actions: AnyActions, model: ModelConfig) -> tuple[Head, ...]:
    """Describes the network heads from which the action distribution is computed.

    Raises:
        UsageError: The model is autoregressive, but the action has only one component.
    """
    if model.action_embeddings is not None:
        return (Head("outputs", "policy_head", model.decoder_width, gain=0.01),)
    log_stds = None
    if actions.num_log_stds:
        log_stds = LogStds(actions.num_log_stds, model.log_std_init, state_dependent=model.use_sde)
    alone = Head("outputs", "policy_head", actions.num_outputs, gain=0.01, log_stds=log_stds)
    if not model.autoregressive:
        return (alone,)
    return alone, load_internal(DECODERS["autoregressive head"])(actions, model)


class DecodedNetwork(NamedTuple):
    """Network whose heads may be converted to action distributions by a decoder.

    Attributes:
        module: Module that holds all parameters, including the decoder's.
        network: The network, up to its heads.
        decoding: Decoder of the heads; None if there is none.
    """

    module: nn.Module
    network: TorchNetwork
    decoding: Decoding | None


def decoded_network(
    spec: NetworkSpec, leaves: ObservationTree, actions: AnyActions, model: ModelConfig, seed: int
) -> DecodedNetwork:
    """Creates a network with the heads of an action distribution, its decoder if needed, and optional further heads.

    Raises:
        UsageError: gSDE is combined with encoders that have parameters, such as CNNs, or with attention.
    """
    if model.use_sde and not spec.is_dense:
        raise UsageError(
            "model.use_sde does not support learned encoders (such as for images) or attention; leave it out"
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
    if not model.use_sde:
        return
    if not isinstance(actions, load_internal(ACTION_SPACES["Box"])) or model.module is not None:
        raise UsageError("model.use_sde works only with continuous actions and rlrun's own networks; leave it out")


def make_decoder(leaves: ObservationTree, actions: AnyActions, model: ModelConfig, seed: int) -> Decoder | None:
    """Creates the decoder that converts network heads to an action distribution; None if no decoder is needed.

    Args:
        leaves: Observation entries and how each enters the network.
        actions: The policy's action space.
        model: The network's settings.
        seed: Seed of the initial parameters.
    """
    if model.autoregressive:
        decoder: Decoder = load_internal(DECODERS["autoregressive"])(actions, model, seed)
        return decoder
    return embedding_decoder(leaves, model, seed)


def embedding_decoder(leaves: ObservationTree, model: ModelConfig, seed: int) -> Decoder | None:
    """Creates the decoder that scores actions by embeddings; None without the setting `model.action_embeddings`."""
    key = model.action_embeddings
    if key is None:
        return None
    make = load_internal(DECODERS["embeddings"])
    decoder: Decoder = make(key, leaves[key].shape[1], model, model.decoder_width, seed=seed)
    return decoder
