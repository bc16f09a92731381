"""Factory of a policy's action space from the env's Gymnasium action space (NumPy)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium
import numpy as np

from rlrun.engine.data.space_kinds import space_tree
from rlrun.engine.data.tree import map_tree
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.policy.action_spaces.product import PartActions, ProductActions

    AnyActions: TypeAlias = PartActions | ProductActions

ACTION_SPACES = {
    "Box": "rlrun.engine.policy.action_spaces.box:GaussianBoxActions",
    "Discrete": "rlrun.engine.policy.action_spaces.discrete:DiscreteActions",
    "MultiBinary": "rlrun.engine.policy.action_spaces.multi_binary:MultiBinaryActions",
    "MultiDiscrete": "rlrun.engine.policy.action_spaces.multi_discrete:MultiDiscreteActions",
    "Tuple, Dict": "rlrun.engine.policy.action_spaces.product:ProductActions",
}
"""Import paths of the policies' action spaces, by the kind of the env's action space."""


def make_action_space(space: gymnasium.Space[Any]) -> AnyActions:
    """Creates the policy's action space, with the family of distributions that fits the env's action space.

    Raises:
        UsageError: If the kind of space is not supported.
    """
    if isinstance(space, gymnasium.spaces.Dict | gymnasium.spaces.Tuple):
        product: ProductActions = load_internal(ACTION_SPACES["Tuple, Dict"])(
            map_tree(_part_actions, space_tree(space))
        )
        return product
    return _part_actions(space)


def _part_actions(space: gymnasium.Space[Any]) -> PartActions:
    made: PartActions = load_internal(ACTION_SPACES[_kind(space)])(space)
    return made


def _kind(space: gymnasium.Space[Any]) -> str:
    match space:
        case gymnasium.spaces.Discrete():
            return "Discrete"
        case gymnasium.spaces.MultiDiscrete():
            return "MultiDiscrete"
        case gymnasium.spaces.MultiBinary():
            return "MultiBinary"
        case gymnasium.spaces.Box() if np.issubdtype(space.dtype, np.floating):
            return "Box"
    raise UsageError(
        f"no policy supports the action space {space}; supported: Discrete, MultiDiscrete, MultiBinary, "
        "float Box, and Tuple and Dict of these"
    )
