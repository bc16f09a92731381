"""How each part of an observation enters a network: as a vector, as one-hot choices, as an image, or not at all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from numpy.typing import NDArray

from rlrun.data.action_masks import ACTION_MASK, has_action_mask
from rlrun.data.tree import leaves, map_tree, named_leaves
from rlrun.errors import UsageError
from rlrun.nn.model_config import Encoding, ObservationConfig

IMAGE_MIN_PIXELS = 20
"""Side from which a Box is taken for an image: below it the convolutions would have nothing to cover."""

MOST_ONE_HOT_VALUES = 16
"""Integers with at most so many values are taken for choices, such as the kinds of things in a grid; two values enter
as 0 and 1."""

MOST_SCALED_VALUES = 2**16
"""Integers with more values than these are taken for unbounded: brought into 0..1 they would hardly differ."""


@dataclass(frozen=True)
class ObservationLeaf:
    """One part of an observation.

    Attributes:
        kind: `vector` for numbers, `choices` for the one-hot encoded integers of a Discrete or MultiDiscrete space,
            `one_hot` for those of a Box, `image` for convolutions, `mask` for the action mask, which no network sees.
        shape: Its shape as the env gives it.
        sizes: How many values each integer takes: of each choice, or of all integers of a Box alike, (n,).
        starts: Each integer's smallest value; as `sizes`.
        is_normalized: Whether its numbers are normalised by running moments before they enter.
        scale: Factor that brings the numbers of a vector or an image into 0..1.
        low: What is taken off before: the least that they can be.
    """

    kind: Literal["vector", "choices", "one_hot", "image", "mask"]
    shape: tuple[int, ...]
    sizes: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    is_normalized: bool = False
    scale: float = 1.0
    low: float = 0.0

    @property
    def width(self) -> int:
        """Numbers that a dense layer gets from it."""
        if self.kind == "one_hot":
            return math.prod(self.shape) * self.sizes[0]
        return sum(self.sizes) if self.kind == "choices" else math.prod(self.shape)

    @property
    def is_scaled(self) -> bool:
        """Whether its numbers are brought into 0..1."""
        return self.scale != 1.0 or self.low != 0.0

    @property
    def channels_last(self) -> bool:
        """Whether an image's last axis holds its channels."""
        return len(self.shape) > 2 and self.shape[-1] <= self.shape[-3]

    @property
    def channels_height_width(self) -> tuple[int, int, int]:
        """An image's form as the convolutions get it: the images of a stack are channels."""
        *stack, first, second, third = self.shape if len(self.shape) > 2 else (1, *self.shape)
        channels, height, width = (third, first, second) if self.channels_last else (first, second, third)
        return math.prod(stack) * channels, height, width

    def dense(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """Returns the numbers that a dense layer gets, [B, width]."""
        if self.kind == "vector":
            numbers = observations.reshape(len(observations), self.width).astype(np.float32, copy=False)
            return (numbers - self.low) * self.scale if self.is_scaled else numbers
        if self.kind == "one_hot":
            values = np.arange(self.starts[0], self.starts[0] + self.sizes[0])
            found = observations.reshape(len(observations), math.prod(self.shape), 1) == values
            one_hot: NDArray[np.float32] = found.reshape(len(observations), self.width).astype(np.float32)
            return one_hot
        indices = observations.reshape(len(observations), -1) - np.asarray(self.starts)
        encoded = np.zeros((len(observations), self.width), np.float32)
        firsts = np.cumsum((0, *self.sizes[:-1]))
        np.put_along_axis(encoded, indices + firsts, 1.0, -1)
        return encoded

    def describe(self) -> str:
        """Says in a few words how it enters the network."""
        shape = "x".join(map(str, self.shape)) or "1"
        match self.kind:
            case "mask":
                return "action mask, which the network does not see"
            case "choices":
                return f"one-hot of {', '.join(map(str, self.sizes))} values"
            case "one_hot":
                last = self.starts[0] + self.sizes[0] - 1
                return f"{shape}, one-hot of {self.sizes[0]} values ({self.starts[0]} to {last})"
        how = "normalised by running moments" if self.is_normalized else self._scaling()
        return f"{'image' if self.kind == 'image' else 'vector of'} {shape}, {how}"

    def _scaling(self) -> str:
        if not self.is_scaled:
            return "as it is"
        below = f"{self.low:g} subtracted, " if self.low else ""
        return f"{below}scaled by {f'1/{1 / self.scale:g}' if self.scale < 1 else f'{self.scale:g}'}"


ObservationTree = Any
"""A tree of `ObservationLeaf`: a leaf, or a dict or tuple of trees."""

DEFAULT = ObservationConfig()


def observation_leaves(
    space: gymnasium.Space[Any], settings: Mapping[str, ObservationConfig], *, normalize: bool
) -> ObservationTree:
    """Returns the tree of `ObservationLeaf` with the structure of a space's observations.

    Args:
        space: The space.
        settings: How parts of it enter where the default is not right, by path.
        normalize: Whether numbers are normalised by running moments: those of all Boxes that enter as vectors,
            integers too, for which no bounds are set. Nothing else scales them then.

    Raises:
        UsageError: If a part of the space cannot enter a network, or settings are about no part.
    """
    if has_action_mask(space):
        seen = {key: part for key, part in space.items() if key != ACTION_MASK}
        mask = ObservationLeaf("mask", space[ACTION_MASK].shape)
        tree = {ACTION_MASK: mask, **_leaves_of(Dict(seen), settings, normalize, "")}
    else:
        tree = _leaves_of(space, settings, normalize, "")
    known = [path for path, leaf in named_leaves(tree) if leaf.kind != "mask"]
    if unknown := sorted(settings.keys() - set(known)):
        told = ", ".join(f"{path!r}" for path in known)
        raise UsageError(f"model.observations: {unknown[0]!r} is no part of an observation; there are {told}")
    return tree


def described_leaves(tree: ObservationTree) -> list[tuple[str, str]]:
    """Returns (path, how it enters the network) of each part of an observation."""
    return [(path, leaf.describe()) for path, leaf in named_leaves(tree)]


def _leaves_of(
    space: gymnasium.Space[Any], settings: Mapping[str, ObservationConfig], normalize: bool, path: str
) -> ObservationTree:
    def inside(key: object, part: gymnasium.Space[Any]) -> ObservationTree:
        return _leaves_of(part, settings, normalize, f"{path}/{key}" if path else str(key))

    match space:
        case Dict():
            return {key: inside(key, part) for key, part in space.spaces.items()}
        case Tuple():
            return tuple(inside(i, part) for i, part in enumerate(space.spaces))
        case Box():
            return _box_leaf(space, settings.get(path, DEFAULT), normalize, path)
    if path in settings:
        raise UsageError(f"model.observations: {path!r} is {space}; only of a Box there is something to set")
    match space:
        case Discrete():
            return ObservationLeaf("choices", (), (int(space.n),), (int(space.start),))
        case MultiDiscrete():
            sizes, starts = space.nvec.ravel().tolist(), space.start.ravel().tolist()
            return ObservationLeaf("choices", space.shape, tuple(sizes), tuple(starts))
        case MultiBinary():
            return ObservationLeaf("vector", space.shape)
    raise UsageError(
        f"no network takes observations of {space}: "
        "they are Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of those"
    )


def _box_leaf(space: Box, setting: ObservationConfig, normalize: bool, path: str) -> ObservationLeaf:
    is_float, shape = bool(np.issubdtype(space.dtype, np.floating)), space.shape
    if not math.prod(shape):
        return ObservationLeaf("vector", shape, is_normalized=normalize)
    low, high = setting.bounds or (float(space.low.min()), float(space.high.max()))
    kind = setting.encode_as or _likely_encoding(space, high - low)
    match kind:
        case "one_hot":
            if is_float or high - low >= MOST_SCALED_VALUES or not (low.is_integer() and high.is_integer()):
                raise UsageError(
                    f"model.observations: {path!r} is {space} from {low:g} to {high:g}, and one-hot vectors are made "
                    f"of whole numbers with at most {MOST_SCALED_VALUES:,} values: set its bounds, or encode_as: vector"
                )
            return ObservationLeaf("one_hot", shape, (int(high - low) + 1,), (int(low),))
        case "image":
            if len(shape) not in (2, 3, 4):
                raise UsageError(
                    f"model.observations: {path!r} of shape {shape} is no image: those are [height, width], with "
                    "channels first or last, and perhaps stacked along a fourth axis in front"
                )
            # Real numbers that lie between -1 and 1 already are of the size that convolutions learn from.
            is_small = is_float and setting.bounds is None and max(-low, high) <= 1
        case "vector":
            if normalize and setting.bounds is None:
                return ObservationLeaf("vector", shape, is_normalized=True)
            is_small = is_float and setting.bounds is None
    if is_small or not _is_bounded(low, high, is_float):
        return ObservationLeaf(kind, shape)
    # An Adam step moves what large inputs are multiplied by too far.
    return ObservationLeaf(kind, shape, scale=1 / (high - low) if high > low else 1.0, low=low)


def _is_bounded(low: float, high: float, is_float: bool) -> bool:
    return math.isfinite(high - low) and (is_float or high - low < MOST_SCALED_VALUES)


def _likely_encoding(space: Box, extent: float) -> Encoding:
    """Returns how a Box enters by its shape, its type, and how far its numbers are from each other at most."""
    shape = space.shape
    is_large = len(shape) > 1 and sorted(shape[-3:])[-2] >= IMAGE_MIN_PIXELS
    if is_large and (len(shape) in (3, 4) or (len(shape) == 2 and space.dtype == np.uint8)):
        return "image"
    is_choice = bool(np.issubdtype(space.dtype, np.integer)) and 2 <= extent < MOST_ONE_HOT_VALUES
    return "one_hot" if is_choice and len(shape) <= 3 else "vector"


def is_masked(tree: ObservationTree) -> bool:
    """Whether observations hold an action mask."""
    return isinstance(tree, dict) and ACTION_MASK in tree and tree[ACTION_MASK].kind == "mask"


def encoded_leaves(tree: ObservationTree) -> ObservationTree:
    """Returns the parts of an observation that a network sees: all but the action mask."""
    return {key: part for key, part in tree.items() if key != ACTION_MASK} if is_masked(tree) else tree


def dense_inputs(tree: Any, observations: Any) -> NDArray[np.float32]:
    """Returns the numbers of all parts side by side, [B, D]; no part may be an image."""
    if isinstance(tree, ObservationLeaf):
        return tree.dense(observations)
    parts = leaves(map_tree(lambda leaf, column: leaf.dense(column), tree, observations))
    return np.concatenate(parts, axis=-1)
