"""Encodings of past steps that are added to a network's input: stacked observations, past actions, past rewards."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from numpy.typing import NDArray

from rlrun.engine.data.tree import map_tree
from rlrun.engine.data.views import VIEW_FRAMES, VIEW_OBS, VIEW_PREV_ACTIONS, VIEW_PREV_REWARDS, split
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import ViewsConfig
from rlrun.engine.nn.observation_leaf import ObservationLeaf
from rlrun.engine.nn.observation_leaves import ObservationTree


def view_leaves(
    observed: ObservationTree, action_space: gymnasium.Space[Any], views: ViewsConfig
) -> dict[str, ObservationTree]:
    """Returns the encodings of a network's input that includes stacked observations, past actions or past rewards.

    Args:
        observed: Encoding of each entry of the env's observations.
        action_space: Action space of the env.
        views: Settings of the past steps that the network sees.

    Returns:
        Encodings of the observation entries and of the past steps, a tree of `ObservationLeaf`.

    Raises:
        UsageError: Observations cannot be stacked, or actions of this space have no encoding.
    """
    tree = split(observed, VIEW_OBS if views.obs == 1 else VIEW_FRAMES)
    if views.obs > 1:
        tree[VIEW_FRAMES] = map_tree(lambda leaf: _stacked(leaf, views.obs), tree[VIEW_FRAMES])
    if views.prev_actions:
        tree[VIEW_PREV_ACTIONS] = _action_leaf(action_space, views.prev_actions)
    if views.prev_rewards:
        tree[VIEW_PREV_REWARDS] = ObservationLeaf("vector", (views.prev_rewards,))
    return tree


def nothing_before(leaf: ObservationLeaf, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Returns the placeholder values for the missing steps before an episode's start, which are encoded as zeros.

    Args:
        leaf: Encoding of a stack of frames, actions or rewards.
        dtype: Dtype of the stacked numbers.
    """
    shape = leaf.shape[1:]
    if leaf.kind != "one_hot":
        return np.zeros(shape, dtype)
    none_of_them = leaf.starts[0] + leaf.sizes[0]  # one above the last value, then limited to the dtype's range
    return np.full(shape, min(none_of_them, np.iinfo(dtype).max), dtype)


def _stacked(leaf: ObservationLeaf, number: int) -> ObservationLeaf:
    """Returns the encoding of a stack of `number` observations."""
    shape = (number, *leaf.shape)
    match leaf.kind:
        case "vector" | "one_hot":
            return replace(leaf, shape=shape)
        case "image" if len(leaf.shape) < 4:
            return replace(leaf, shape=shape)
        case "choices" if len(set(leaf.starts)) == 1:
            # The padding before an episode's start equals none of the values, so it is encoded as zeros.
            return ObservationLeaf("one_hot", shape, (max(leaf.sizes),), leaf.starts[:1])
    raise UsageError(
        f"model.views.obs: {number}: this observation ({leaf.describe()}) cannot be stacked; only vectors, unstacked "
        "images, and choices that all start at the same number can"
    )


def _action_leaf(space: gymnasium.Space[Any], number: int) -> ObservationLeaf:
    """Returns the encoding of past actions in the policy's own representation, where choices are counted from 0."""
    match space:
        case Discrete():
            return ObservationLeaf("one_hot", (number,), (int(space.n),), (0,))
        case MultiDiscrete():
            return ObservationLeaf("one_hot", (number, space.nvec.size), (int(space.nvec.max()),), (0,))
        case Box() | MultiBinary():
            return ObservationLeaf("vector", (number, math.prod(space.shape)))
    raise UsageError(f"model.views.prev_actions does not support actions in {space}; leave it out")
