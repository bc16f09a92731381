"""Conversions of the settings of QMIX and MADDPG, whose policy acts for all agents of a world."""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.foreign_settings import OMIT, ForeignSettings
from rlrun.bridges.translation.remarks import Impact
from rlrun.bridges.translation.settings import Conversions, only

conversion = Conversions()
"""Conversions by name, and the decorator that adds one."""


@conversion
def mixer(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Mixer of RLlib's QMIX, which selects the algorithm in rlrun: qmix or vdn."""
    if value not in ("qmix", "vdn"):
        text = "without a mixer each agent learns alone: that is dqn with one policy for all agents here"
        foreign.tell(key, text, Impact.LEARNING)
    return OMIT


def mixing(ours: str, mixer_name: Any) -> str:
    """Algorithm in rlrun that corresponds to an algorithm and mixer of RLlib.

    Examples:
        >>> mixing("qmix", "vdn"), mixing("qmix", "qmix"), mixing("ppo", None)
        ('vdn', 'qmix', 'ppo')
    """
    return "vdn" if ours == "qmix" and mixer_name == "vdn" else ours


@conversion
def gru_of_team(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Network of QMIX agents: a dense layer with relu, followed by a GRU of the same width."""
    foreign.put("config.model.hiddens", [int(value)], key)
    foreign.put("config.model.core", "gru", key)
    return int(value)


@conversion
def norm_of_each(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Clipping threshold of the gradient norm; RLlib clips each parameter separately."""
    if key in foreign.written:
        foreign.tell(key, "bounds the gradient as a whole here; there that of each weight matrix and bias")
    return value


conversion["only_own_value"] = only(("maddpg",), "critics see what all agents see and do here", Impact.LEARNING)
conversion["only_rmsprop_decay"] = only((0.99,), "RMSProp's decay is 0.99 here", Impact.SLIGHT)
conversion["only_rmsprop_epsilon"] = only((1e-5,), "RMSProp's epsilon is 1e-5 here", Impact.SLIGHT)
