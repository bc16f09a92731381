"""Action masks in observations: lookup, and validation against the action space."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium
from gymnasium.spaces import Box, Dict, MultiBinary

from rlrun.engine.data.space_kinds import choice_ranges, kind_of, space_tree
from rlrun.engine.data.tree import leaves
from rlrun.engine.messages.errors import UsageError

ACTION_MASK = "action_mask"
"""Key of the mask at the top level of a Dict observation: 1 for each allowed action, 0 for the others."""

METHOD = "action_masks"
"""Name of the env method that returns the action mask of the current state, as in sb3-contrib."""

FORBIDDEN = -1e9
"""Logit or value of a forbidden action: its probability is exactly 0, and sums with it are never NaN."""


def has_action_mask(observation_space: gymnasium.Space[Any]) -> bool:
    """Whether an observation space includes an action mask."""
    return isinstance(observation_space, Dict) and ACTION_MASK in observation_space.spaces


def mask_of(observations: Any) -> Any | None:
    """Returns the action mask in observations, an array or tensor [..., A]; None if there is no mask."""
    return observations.get(ACTION_MASK) if isinstance(observations, dict) else None


def can_be_masked(action_space: gymnasium.Space[Any]) -> bool:
    """Whether an action space has discrete choices that a mask can restrict."""
    return bool(_choices(action_space))


def masked_choices(action_space: gymnasium.Space[Any]) -> tuple[int, ...]:
    """Returns the number of options of each discrete choice that an action mask restricts, in the mask's order.

    In a Tuple or Dict space, the mask restricts the Discrete and MultiDiscrete parts, in the order of the space; other
    parts are unrestricted.

    Raises:
        UsageError: Actions of this kind cannot be masked.
    """
    choices = _choices(action_space)
    if not choices:
        raise UsageError(
            "action masks work only with Discrete and MultiDiscrete actions, alone or in a Tuple or Dict, "
            f"but this env has {action_space}"
        )
    return choices


def _choices(space: gymnasium.Space[Any]) -> tuple[int, ...]:
    kinds = [(part, kind_of(part)) for part in leaves(space_tree(space))]
    choices = [choice_ranges(part)[0] for part, kind in kinds if kind is not None and kind.meaning == "choices"]
    return tuple(itertools.chain.from_iterable(choices))


def check_action_mask(observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]) -> None:
    """Validates that an action mask in the observation space matches the action space.

    Raises:
        UsageError: The mask does not match the action space, or observations contain nothing but the mask.
    """
    if not has_action_mask(observation_space):
        return
    space, width = observation_space[ACTION_MASK], sum(masked_choices(action_space))
    if not isinstance(space, Box | MultiBinary) or space.shape != (width,):
        raise UsageError(
            f"the observation's {ACTION_MASK} is {space}, but {action_space} needs a Box or MultiBinary of "
            f"shape ({width},): one number per action of each choice, 1 if it is allowed, else 0"
        )
    if len(observation_space.spaces) == 1:
        raise UsageError(
            f"the observation contains only {ACTION_MASK}, which networks do not see; add another entry for the network"
        )
