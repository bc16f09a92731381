"""Conversions of RLlib's network settings."""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.foreign_settings import OMIT, Conversions, ForeignSettings
from rlrun.bridges.translation.meanings import Impact
from rlrun.bridges.translation.rllib_settings.units import Q_LEARNERS

conversion = Conversions()
"""Conversions by name, and the decorator that adds one."""


@conversion
def q_layers(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the layers of a Q network: `fcnet_hiddens` (not for Atari images), followed by `hiddens`."""
    head = list(foreign.get("hiddens") or [])
    if foreign.is_atari:
        return head
    widths, is_linear = foreign.get("model.fcnet_hiddens"), foreign.get("model.fcnet_activation") in ("linear", None)
    trunk = [] if is_linear else list(widths)
    if is_linear and widths and key in foreign.written:
        foreign.tell(key, "layers without an activation are left out, because together they are one linear map")
    return trunk + head


@conversion
def layers(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the widths of dense layers; omits layers without activations, since together they are one linear map."""
    if foreign.has("critic_lr") or foreign.is_atari:
        return OMIT  # actors and critics have their own keys, and images go through encoders
    if foreign.get("model.fcnet_activation") in ("linear", None) and value:
        foreign.tell(key, "layers without an activation are left out, because together they are one linear map")
        return []
    return value


ACTIVATIONS = {"tanh": "tanh", "relu": "relu", "elu": "elu", "swish": "silu", "silu": "silu"}
"""Activations by RLlib's names."""


@conversion
def activation(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the activation of dense layers.

    RLlib's Q networks always have relu in their heads (`hiddens`); rlrun has one activation, so all layers get relu.
    """
    if foreign.has("critic_lr") and key.startswith("model."):
        return OMIT
    if value in ("linear", None):
        return OMIT
    if value not in ACTIVATIONS:
        foreign.tell(key, f"rlrun has no activation {value}", Impact.LEARNING)
        return OMIT
    if foreign.algorithm in Q_LEARNERS and foreign.get("hiddens") and value != "relu":
        if not foreign.is_atari:
            foreign.tell(key, f"rlrun uses relu in all layers; RLlib's model used {value}")
        return "relu"
    return ACTIVATIONS[value]


@conversion
def actor_layers(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the actor's layer widths, which rlrun uses for critics too; adds a remark if RLlib's critics differ."""
    if key == "critic_hiddens":
        if value != foreign.get("actor_hiddens"):
            foreign.tell(key, "rlrun uses actor_hiddens for both actor and critics")
        return OMIT
    return value


@conversion
def actor_activation(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the actor's activation, which rlrun uses for critics too; adds a remark if RLlib's critics differ."""
    if key == "critic_hidden_activation":
        if value != foreign.get("actor_hidden_activation"):
            foreign.tell(key, "rlrun uses the actor's activation for the critics too")
        return OMIT
    return activation(foreign, key, value)


@conversion
def networks(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the networks of SAC: the actor's layers, which rlrun uses for critics too."""
    own = foreign.section("policy_model_config", "policy_model")
    if key not in ("policy_model_config", "policy_model"):
        if foreign.section("q_model_config", "Q_model") != own and key in foreign.written:
            foreign.tell(key, "rlrun uses the policy's layers for the critics too")
        return OMIT
    if own.get("custom_model"):
        foreign.tell(key, "set model.module to the custom network", Impact.LEARNING)
    widths = own.get("hidden_layer_sizes", own["fcnet_hiddens"])
    foreign.put("config.model.hiddens", widths, key)
    foreign.put("config.model.activation", activation(foreign, key, own.get("fcnet_activation", "relu")), key)
    return OMIT


@conversion
def recurrent(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts `use_lstm` to an LSTM core, with its width and the length of training sequences."""
    if not value:
        return OMIT
    if not foreign.has("model.core"):
        foreign.tell(key, f"rlrun's {foreign.algorithm} has no recurrent networks", Impact.LEARNING)
        return OMIT
    foreign.put("config.model.core_width", foreign.get("model.lstm_cell_size", 256), key)
    if foreign.has("seq_len"):
        foreign.put("config.seq_len", _sequence(foreign, int(foreign.get("model.max_seq_len", 20))), key)
    return "lstm"


def _sequence(foreign: ForeignSettings, most: int) -> int:
    """Length of training sequences of a recurrent core: the largest up to `most` that divides PPO's minibatches."""
    size = foreign.get("sgd_minibatch_size")
    if size is None or not size % most:
        return most
    length = max(each for each in range(1, most + 1) if not size % each)
    foreign.tell(
        "model.max_seq_len", f"rlrun uses sequences of {length} steps, which divide a minibatch; RLlib used {most}"
    )
    return length


@conversion
def recurrent_settings(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits a setting of RLlib's LSTM, which `recurrent` has converted; adds a remark if `use_lstm` is off."""
    if not foreign.get("model.use_lstm"):
        foreign.tell(key, "the network has no recurrent core", Impact.NONE)
    return OMIT


@conversion
def count_if_true(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts a number or a boolean to a number of layers or frames; true means 1, and false is omitted."""
    return int(value) if value else OMIT


@conversion
def convolutions(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits custom convolution layers; adds a remark that rlrun has two fixed image encoders, nature and impala."""
    if value:
        foreign.tell(key, "choose the convolutions with model.conv: nature or impala")
    return OMIT


@conversion
def frame_size(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the size of Atari frames to height and width, unless it is the default of 84."""
    if foreign.is_atari and value != 84:
        foreign.put("env.kwargs.img_height", value, key)
        foreign.put("env.kwargs.img_width", value, key)
    return OMIT
