"""How each part of an observation enters a network: as a vector, as one-hot choices, as an image, or not at all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.data.action_masks import ACTION_MASK, has_action_mask
from rlrun.data.tree import leaves, map_tree
from rlrun.errors import UsageError

IMAGE_MIN_PIXELS = 20
"""Side from which a Box of rank 3 is taken for an image: below it the convolutions would have nothing to cover."""


@dataclass(frozen=True)
class ObservationLeaf:
    """One part of an observation.

    Attributes:
        kind: `vector` for numbers, `choices` for one-hot encoded integers, `image` for convolutions, `mask` for the
            action mask, which no network sees.
        shape: Its shape as the env gives it.
        sizes: For choices, how many values each integer takes.
        starts: For choices, each integer's smallest value.
        is_float: Whether the env gives floating-point numbers: those can be normalised.
        scale: Factor that brings the numbers of an image, or of bytes that are none, into 0..1.
        low: For such bytes, what is taken off before: the least that they can be.
    """

    kind: Literal["vector", "choices", "image", "mask"]
    shape: tuple[int, ...]
    sizes: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    is_float: bool = False
    scale: float = 1.0
    low: float = 0.0

    @property
    def width(self) -> int:
        """Numbers that a dense layer gets from it."""
        return sum(self.sizes) if self.kind == "choices" else math.prod(self.shape)

    @property
    def is_scaled(self) -> bool:
        """Whether the numbers of a vector are brought into 0..1."""
        return self.scale != 1.0 or self.low != 0.0

    @property
    def channels_last(self) -> bool:
        """Whether an image's last axis holds its channels."""
        return self.shape[2] <= self.shape[0]

    def dense(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """Returns the numbers that a dense layer gets, [B, width]."""
        if self.kind == "vector":
            numbers = observations.reshape(len(observations), self.width).astype(np.float32, copy=False)
            return (numbers - self.low) * self.scale if self.is_scaled else numbers
        indices = observations.reshape(len(observations), -1) - np.asarray(self.starts)
        encoded = np.zeros((len(observations), self.width), np.float32)
        firsts = np.cumsum((0, *self.sizes[:-1]))
        np.put_along_axis(encoded, indices + firsts, 1.0, -1)
        return encoded


ObservationTree = Any
"""A tree of `ObservationLeaf`: a leaf, or a dict or tuple of trees."""


def observation_leaf(space: gymnasium.Space[Any]) -> ObservationLeaf:
    """Returns how observations of an unnested space enter a network.

    Raises:
        UsageError: If they cannot.
    """
    match space:
        case gymnasium.spaces.Discrete():
            return ObservationLeaf("choices", (), (int(space.n),), (int(space.start),))
        case gymnasium.spaces.MultiDiscrete():
            sizes, starts = space.nvec.ravel().tolist(), space.start.ravel().tolist()
            return ObservationLeaf("choices", space.shape, tuple(sizes), tuple(starts))
        case gymnasium.spaces.MultiBinary():
            return ObservationLeaf("vector", space.shape)
        case gymnasium.spaces.Box():
            is_float = bool(np.issubdtype(space.dtype, np.floating))
            if len(space.shape) == 3 and sorted(space.shape)[1] >= IMAGE_MIN_PIXELS:
                return ObservationLeaf("image", space.shape, scale=1.0 if is_float else 1 / 255)
            if space.dtype == np.uint8 and math.prod(space.shape):
                # Such as a game's memory: an Adam step moves what large inputs are multiplied by too far.
                low, high = float(space.low.min()), float(space.high.max())
                return ObservationLeaf("vector", space.shape, scale=1 / max(high - low, 1.0), low=low)
            return ObservationLeaf("vector", space.shape, is_float=is_float)
    raise UsageError(
        f"no network takes observations of {space}: "
        "they are Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of those"
    )


def observation_leaves(space: gymnasium.Space[Any]) -> Any:
    """Returns the tree of `ObservationLeaf` with the structure of a space's observations.

    Raises:
        UsageError: If a part of the space cannot enter a network.
    """
    if not has_action_mask(space):
        return _leaves_of(space)
    parts = {key: part for key, part in space.items() if key != ACTION_MASK}
    return {ACTION_MASK: ObservationLeaf("mask", space[ACTION_MASK].shape), **_leaves_of(gymnasium.spaces.Dict(parts))}


def is_masked(tree: ObservationTree) -> bool:
    """Whether observations hold an action mask."""
    return isinstance(tree, dict) and ACTION_MASK in tree and tree[ACTION_MASK].kind == "mask"


def encoded_leaves(tree: ObservationTree) -> ObservationTree:
    """Returns the parts of an observation that a network sees: all but the action mask."""
    return {key: part for key, part in tree.items() if key != ACTION_MASK} if is_masked(tree) else tree


def _leaves_of(space: gymnasium.Space[Any]) -> ObservationTree:
    match space:
        case gymnasium.spaces.Dict():
            return {key: _leaves_of(part) for key, part in space.spaces.items()}
        case gymnasium.spaces.Tuple():
            return tuple(_leaves_of(part) for part in space.spaces)
    return observation_leaf(space)


def dense_inputs(tree: Any, observations: Any) -> NDArray[np.float32]:
    """Returns the numbers of all parts side by side, [B, D]; no part may be an image."""
    if isinstance(tree, ObservationLeaf):
        return tree.dense(observations)
    parts = leaves(map_tree(lambda leaf, column: leaf.dense(column), tree, observations))
    return np.concatenate(parts, axis=-1)
