"""Factory of policy action spaces from the env's Gymnasium space (NumPy)."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from rlrun.engine.data.space_kinds import space_tree
from rlrun.engine.data.tree import map_tree
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.action_spaces.gaussian_box import GaussianBoxActions
from rlrun.engine.policy.action_spaces.multi_binary import MultiBinaryActions
from rlrun.engine.policy.action_spaces.multi_discrete import MultiDiscreteActions
from rlrun.engine.policy.action_spaces.product import PartActions, ProductActions

AnyActions = PartActions | ProductActions


def make_action_space(space: gymnasium.Space[Any]) -> AnyActions:
    """Creates the policy's action space, with its distribution family, for an env's action space.

    Raises:
        UsageError: If the kind of space is not supported.
    """
    if isinstance(space, gymnasium.spaces.Dict | gymnasium.spaces.Tuple):
        return ProductActions(map_tree(_part_actions, space_tree(space)))
    return _part_actions(space)


def _part_actions(space: gymnasium.Space[Any]) -> PartActions:
    match space:
        case gymnasium.spaces.Discrete():
            return DiscreteActions(space)
        case gymnasium.spaces.MultiDiscrete():
            return MultiDiscreteActions(space)
        case gymnasium.spaces.MultiBinary():
            return MultiBinaryActions(space)
        case gymnasium.spaces.Box() if np.issubdtype(space.dtype, np.floating):
            return GaussianBoxActions(space)
    raise UsageError(
        f"no policy acts in {space}: action spaces are Discrete, MultiDiscrete, MultiBinary, float Box, and Tuple and "
        "Dict of these"
    )


def discrete_actions(space: gymnasium.Space[Any]) -> DiscreteActions:
    """Creates the Discrete action space of a Q policy.

    Raises:
        UsageError: If the space is not Discrete.
    """
    if not isinstance(space, gymnasium.spaces.Discrete):
        raise UsageError(f"a Q policy chooses among a finite number of actions (Discrete), not in {space}")
    return DiscreteActions(space)
