"""Factories of the policy heads and of the optional decoder of a policy (torch)."""

from __future__ import annotations

from rlrun.nn.encoders import HIDDEN_GAIN
from rlrun.nn.model_config import ModelConfig
from rlrun.nn.network_spec import Head, LogStds
from rlrun.nn.observation_leaves import ObservationTree
from rlrun.policy.action_spaces.autoregressive import CHAIN, chain_parts
from rlrun.policy.action_spaces.make import AnyActions
from rlrun.policy.autoregressive import Autoregressive
from rlrun.policy.decoder import Decoder
from rlrun.policy.embedded_actions import EmbeddedActions


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


def make_decoder(leaves: ObservationTree, actions: AnyActions, model: ModelConfig, seed: int) -> Decoder | None:
    """Creates the decoder between the policy heads and the action distribution; None if no decoder is needed.

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
