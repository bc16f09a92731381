"""Conversions of the settings of networks."""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.remarks import Harm
from rlrun.bridges.translation.rllib_settings.units import Q_LEARNERS
from rlrun.bridges.translation.settings import Conversions
from rlrun.bridges.translation.theirs import OMIT, Theirs

conversion = Conversions()
"""Conversions by name, and the decorator that adds one."""


@conversion
def q_layers(theirs: Theirs, key: str, value: Any) -> Any:
    """Layers of a Q network: those of the model, then `hiddens` of the heads; images have encoders instead."""
    head = list(theirs.get("hiddens") or [])
    if theirs.is_atari:
        return head
    widths, is_linear = theirs.get("model.fcnet_hiddens"), theirs.get("model.fcnet_activation") in ("linear", None)
    trunk = [] if is_linear else list(widths)
    if is_linear and widths and key in theirs.written:
        theirs.tell(key, "layers without an activation are left out: together they are one linear map")
    return trunk + head


@conversion
def layers(theirs: Theirs, key: str, value: Any) -> Any:
    """Widths of the dense layers; without an activation they are one linear map, as without layers."""
    if theirs.has("critic_lr") or theirs.is_atari:
        return OMIT  # those of the actor and critics are other keys; images have encoders
    if theirs.get("model.fcnet_activation") in ("linear", None) and value:
        theirs.tell(key, "layers without an activation are left out: together they are one linear map")
        return []
    return value


ACTIVATIONS = {"tanh": "tanh", "relu": "relu", "elu": "elu", "swish": "silu", "silu": "silu"}
"""Activations by RLlib's names."""


@conversion
def activation(theirs: Theirs, key: str, value: Any) -> Any:
    """Activation of the dense layers; the heads of a Q network have relu there, and one activation is for all here."""
    if theirs.has("critic_lr") and key.startswith("model."):
        return OMIT
    if value in ("linear", None):
        return OMIT
    if value not in ACTIVATIONS:
        theirs.tell(key, f"there is no activation {value}", Harm.LEARNING)
        return OMIT
    if theirs.algorithm in Q_LEARNERS and theirs.get("hiddens") and value != "relu":
        if not theirs.is_atari:
            theirs.tell(key, f"all layers have relu here; those of the model had {value} there")
        return "relu"
    return ACTIVATIONS[value]


@conversion
def actor_layers(theirs: Theirs, key: str, value: Any) -> Any:
    """Widths of actor and critics, which are the same here: those of the actor."""
    if key == "critic_hiddens":
        if value != theirs.get("actor_hiddens"):
            theirs.tell(key, "actor and critics have layers of the same widths here: those of actor_hiddens")
        return OMIT
    return value


@conversion
def actor_activation(theirs: Theirs, key: str, value: Any) -> Any:
    """Activation of actor and critics, which is the same here: that of the actor."""
    if key == "critic_hidden_activation":
        if value != theirs.get("actor_hidden_activation"):
            theirs.tell(key, "actor and critics have the same activation here: that of the actor")
        return OMIT
    return activation(theirs, key, value)


@conversion
def networks(theirs: Theirs, key: str, value: Any) -> Any:
    """Networks of SAC's actor and critics, which have the same layers here: those of the actor."""
    own = theirs.section("policy_model_config", "policy_model")
    if key not in ("policy_model_config", "policy_model"):
        if theirs.section("q_model_config", "Q_model") != own and key in theirs.written:
            theirs.tell(key, "actor and critics have the same layers here: those of the policy's")
        return OMIT
    if own.get("custom_model"):
        theirs.tell(key, "a network of one's own is model.module here", Harm.LEARNING)
    widths = own.get("hidden_layer_sizes", own["fcnet_hiddens"])
    theirs.put("config.model.hiddens", widths, key)
    theirs.put("config.model.activation", activation(theirs, key, own.get("fcnet_activation", "relu")), key)
    return OMIT


@conversion
def recurrent(theirs: Theirs, key: str, value: Any) -> Any:
    """Recurrent core, with its width and the length of its sequences."""
    if not value:
        return OMIT
    if not theirs.has("model.core"):
        theirs.tell(key, f"{theirs.algorithm} has no recurrent networks here", Harm.LEARNING)
        return OMIT
    theirs.put("config.model.core_width", theirs.get("model.lstm_cell_size", 256), key)
    if theirs.has("seq_len"):
        theirs.put("config.seq_len", _sequence(theirs, int(theirs.get("model.max_seq_len", 20))), key)
    return "lstm"


def _sequence(theirs: Theirs, most: int) -> int:
    """Length of sequences of a recurrent core, which divides PPO's minibatches here."""
    size = theirs.get("sgd_minibatch_size")
    if size is None or not size % most:
        return most
    length = max(each for each in range(1, most + 1) if not size % each)
    theirs.tell("model.max_seq_len", f"sequences of {length} steps here, which divide a minibatch; {most} there")
    return length


@conversion
def of_recurrent(theirs: Theirs, key: str, value: Any) -> Any:
    """Settings of a recurrent core, which `use_lstm` brings along; without it they mean nothing."""
    if not theirs.get("model.use_lstm"):
        theirs.tell(key, "there is no recurrent core", Harm.NONE)
    return OMIT


@conversion
def count_if_true(theirs: Theirs, key: str, value: Any) -> Any:
    """1 for true."""
    return int(value) if value else OMIT


@conversion
def convolutions(theirs: Theirs, key: str, value: Any) -> Any:
    """Convolutions, which here are one of two kinds; null leaves the choice open."""
    if value:
        theirs.tell(key, "the convolutions are those of model.conv, nature or impala")
    return OMIT


@conversion
def frame_size(theirs: Theirs, key: str, value: Any) -> Any:
    """Size of Atari's frames."""
    if theirs.is_atari and value != 84:
        theirs.put("env.kwargs.img_height", value, key)
        theirs.put("env.kwargs.img_width", value, key)
    return OMIT
