"""Conversions of the settings of Dreamer: the first Dreamer there, DreamerV3 here."""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.rllib_settings.units import longest_episode, tidy
from rlrun.bridges.translation.settings import Conversions
from rlrun.bridges.translation.theirs import OMIT, Theirs

conversion = Conversions()
"""Conversions by name, and the decorator that adds one."""


EPISODES = 1000
"""Newest episodes that are kept there, without a setting."""


@conversion
def world_model_rate(theirs: Theirs, key: str, value: Any) -> Any:
    """Learning rate of the world model; its remark names the other Dreamer."""
    theirs.tell(key, "DreamerV3 here, the first Dreamer there: latent states are categorical, and returns are scaled")
    return value


@conversion
def minibatches_of_episode(theirs: Theirs, key: str, value: Any) -> float:
    """Minibatches per env step, which follow each episode there."""
    steps = longest_episode(theirs)
    theirs.put("config.replay.capacity", EPISODES * steps, key)
    theirs.tell(key, f"minibatches follow env steps here; there {value} follow each episode, taken as {steps:,} steps")
    return tidy(int(value) / steps)


@conversion
def sizes(theirs: Theirs, key: str, value: Any) -> Any:
    """Sizes of the networks; the latent state of DreamerV3 is another one."""
    own = theirs.section("dreamer_model")
    theirs.put("config.model.recurrent_width", own["deter_size"], key)
    theirs.put("config.model.conv_depth", own["depth_size"], key)
    theirs.put("config.model.hiddens", [own["hidden_size"]] * 3, key)
    return OMIT


@conversion
def noise_of_actor(theirs: Theirs, key: str, value: Any) -> Any:
    """Noise on top of the actor's actions."""
    if key in theirs.written and value:
        theirs.tell(key, "actions are drawn from the actor here, without further noise")
    return OMIT
