"""Conversions of Dreamer's settings: from the first Dreamer in RLlib to DreamerV3."""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.foreign_settings import OMIT, ForeignSettings
from rlrun.bridges.translation.rllib_settings.units import longest_episode, round_off
from rlrun.bridges.translation.settings import Conversions

conversion = Conversions()
"""Conversions by name, and the decorator that adds one."""


EPISODES = 1000
"""Newest episodes that are kept there, without a setting."""


@conversion
def world_model_rate(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Learning rate of the world model, with a remark on the different Dreamer version."""
    foreign.tell(key, "DreamerV3 here, the first Dreamer there: latent states are categorical, and returns are scaled")
    return value


@conversion
def minibatches_of_episode(foreign: ForeignSettings, key: str, value: Any) -> float:
    """Minibatches per env step; RLlib takes them after each episode."""
    steps = longest_episode(foreign)
    foreign.put("config.replay.capacity", EPISODES * steps, key)
    foreign.tell(key, f"minibatches follow env steps here; there {value} follow each episode, taken as {steps:,} steps")
    return round_off(int(value) / steps)


@conversion
def sizes(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Sizes of the networks; the latent state of DreamerV3 has a different structure."""
    own = foreign.section("dreamer_model")
    foreign.put("config.model.recurrent_width", own["deter_size"], key)
    foreign.put("config.model.conv_depth", own["depth_size"], key)
    foreign.put("config.model.hiddens", [own["hidden_size"]] * 3, key)
    return OMIT


@conversion
def noise_of_actor(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Noise added to the actor's actions."""
    if key in foreign.written and value:
        foreign.tell(key, "actions are drawn from the actor here, without further noise")
    return OMIT
