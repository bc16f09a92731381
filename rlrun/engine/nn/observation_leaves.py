"""Chooses how a network encodes each entry of an observation space, from defaults and settings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, MultiBinary, Tuple
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import ACTION_MASK, has_action_mask
from rlrun.engine.data.space_kinds import choice_ranges, kind_of, kinds_in_words, known_kind
from rlrun.engine.data.tree import leaves, map_tree, named_leaves
from rlrun.engine.messages.errors import UsageError, did_you_mean
from rlrun.engine.nn.model_config import Conv, Encoding, ModelConfig, ObservationConfig
from rlrun.engine.nn.observation_leaf import APART, MASKS, CustomEncoder, ObservationLeaf
from rlrun.engine.settings.registry import load_internal

TRIED_WIDTH = "rlrun.engine.nn.custom_encoders:tried_width"
"""Import path of the function that runs a custom encoder, in torch, to find its number of features."""

IMAGE_MIN_PIXELS = 20
"""Minimum side length of a Box that is encoded as an image: a smaller Box is more likely to be a grid or a table."""

NATURE_MIN_PIXELS = 36
"""Minimum side length of an image for the `nature` convolutions with their original kernels."""

MOST_ONE_HOT_VALUES = 16
"""Maximum number of values of integers that are encoded as categories; integers with two values become 0 and 1."""

MOST_SCALED_VALUES = 2**16
"""Maximum number of values of integers that are scaled to 0..1; integers with more values count as unbounded, since
their scaled values would hardly differ."""

ObservationTree = Any
"""Tree of `ObservationLeaf`: a leaf, or a dict or tuple of trees."""

DEFAULT = ObservationConfig()


def observation_leaves(
    space: gymnasium.Space[Any],
    settings: Mapping[str, ObservationConfig],
    *,
    normalize: bool,
    encoders: Mapping[str, str] | None = None,
    conv: Conv | None = None,
) -> ObservationTree:
    """Chooses how a network encodes each entry of an observation space.

    Args:
        space: The observation space.
        settings: Encodings that replace the defaults, by path of the entry.
        normalize: Whether numbers are normalized by running statistics instead of scaled. This applies to all Boxes
            encoded as vectors, including integer Boxes, unless the settings give bounds.
        encoders: Import paths of users' encoders, by path of the entry; each encoder is created and run for validation.
        conv: Architecture of the convolutions of all images; None to choose by the size of each image.

    Returns:
        A tree of `ObservationLeaf` with the structure of the space.

    Raises:
        UsageError: An entry of the space has no encoding, settings name one that does not exist, or an encoder does not
            fit its entry.
    """
    encoders = encoders or {}
    reading = _Reading(settings, encoders, conv, normalize)
    if has_action_mask(space):
        seen = {key: part for key, part in space.items() if key != ACTION_MASK}
        mask = ObservationLeaf("mask", space[ACTION_MASK].shape)
        tree = {ACTION_MASK: mask, **reading.leaves(Dict(seen), "")}
    else:
        tree = reading.leaves(space, "")
    known = [path for path, leaf in named_leaves(tree) if leaf.kind not in MASKS]
    for name, paths in (("observations", settings), ("encoders", encoders)):
        if unknown := sorted(paths.keys() - set(known)):
            told = ", ".join(f"{path!r}" for path in known)
            near = did_you_mean(unknown[0], known)
            raise UsageError(f"model.{name}: the observation has no part {unknown[0]!r}; its parts are {told}{near}")
    return tree


def described_leaves(tree: ObservationTree) -> list[tuple[str, str]]:
    """Returns a pair for each observation entry: its path, and a short description of its encoding."""
    return [(path, leaf.describe()) for path, leaf in named_leaves(tree)]


@dataclass(frozen=True)
class _Reading:
    """Encoding settings applied while traversing an observation space."""

    settings: Mapping[str, ObservationConfig]
    encoders: Mapping[str, str]
    conv: Conv | None
    normalize: bool

    def leaves(self, space: gymnasium.Space[Any], path: str) -> ObservationTree:
        """Builds the tree of `ObservationLeaf` for a part of the space."""
        match space:
            case Dict():
                masks = self._entity_masks(space, path)
                return {key: masks.get(key) or self.leaves(part, _within(path, key)) for key, part in space.items()}
            case Tuple():
                return tuple(self.leaves(part, _within(path, i)) for i, part in enumerate(space.spaces))
        kind = kind_of(space)
        if kind is None:
            raise UsageError(f"networks do not support the observation space {space}; supported: {kinds_in_words()}")
        if path in self.encoders:
            return _own_leaf(space, self.encoders[path], path)
        if kind.meaning == "numbers":
            return self._numbers_leaf(space, path)
        shape, _ = kind.form(space)
        if kind.meaning == "choices":
            return self._choices_leaf(space, shape, path)
        if path in self.settings:
            raise UsageError(f"model.observations: {path!r} is {space}, which has no settings; leave it out")
        return ObservationLeaf("vector", shape)

    def _entity_masks(self, space: Dict, path: str) -> dict[str, ObservationLeaf]:
        """Returns the entity masks in a Dict space, by key."""
        masks: dict[str, ObservationLeaf] = {}
        for key, part in space.items():
            mask = self.settings.get(_within(path, key), DEFAULT).mask
            if mask is None or not isinstance(part, Box):
                continue
            own = f"model.observations: the mask of {_within(path, key)!r}"
            if mask == key or mask not in space.spaces:
                others = [other for other in space.spaces if other != key]
                told = ", ".join(f"{other!r}" for other in others) or "nothing"
                raise UsageError(
                    f"{own} is not a sibling part: {mask!r}; available: {told}{did_you_mean(mask, others)}"
                )
            if not isinstance(space[mask], Box | MultiBinary) or space[mask].shape != part.shape[:1]:
                raise UsageError(
                    f"{own} must be a Box or MultiBinary of shape {part.shape[:1]} (1 for each entity that "
                    f"exists, else 0), not {space[mask]}"
                )
            masks[mask] = ObservationLeaf("entity_mask", space[mask].shape)
        return masks

    def _choices_leaf(self, space: gymnasium.Space[Any], shape: tuple[int, ...], path: str) -> ObservationLeaf:
        setting = self.settings.get(path, DEFAULT)
        if setting.bounds is not None or setting.encode_as not in (None, "one_hot", "embedding"):
            raise UsageError(
                f"model.observations: {path!r} is {space}, which supports only encode_as: one_hot or embedding"
            )
        sizes, starts = choice_ranges(space)
        if setting.encode_as != "embedding":
            return ObservationLeaf("choices", shape, sizes, starts)
        ends = (start + size for start, size in zip(starts, sizes, strict=True))
        return ObservationLeaf("embedding", shape, (max(ends) - min(starts),), (min(starts),))

    def _numbers_leaf(self, space: gymnasium.Space[Any], path: str) -> ObservationLeaf:
        setting, own = self.settings.get(path, DEFAULT), known_kind(space)
        shape, dtype = own.form(space)
        if not math.prod(shape):
            return ObservationLeaf("vector", shape, is_normalized=self.normalize)
        least, most = own.bounds(space)
        low, high = setting.bounds or (float(np.min(least)), float(np.max(most)))
        kind = setting.encode_as or _default_encoding(shape, dtype, high - low)
        is_float = bool(np.issubdtype(dtype, np.floating))
        if kind in ("one_hot", "embedding"):
            if is_float or not _is_countable(low, high):
                raise _no_whole_numbers(kind, f"{path!r} is {space} from {low:g} to {high:g}")
            return ObservationLeaf(kind, shape, (int(high - low) + 1,), (int(low),))
        _check_shape(kind, shape, path)
        if kind == "vector" and self.normalize and setting.bounds is None:
            return ObservationLeaf("vector", shape, is_normalized=True)
        is_small = is_float and setting.bounds is None
        if kind == "image":  # real numbers between -1 and 1 already have a scale that convolutions can learn from
            is_small &= max(-low, high) <= 1
        # Large inputs are scaled, because Adam's steps are too large for their weights.
        is_scaled = not is_small and _is_bounded(low, high, is_float)
        return ObservationLeaf(
            kind,
            shape,
            scale=1 / (high - low) if is_scaled and high > low else 1.0,
            low=low if is_scaled else 0.0,
            conv=(self.conv or _fitting_conv(shape)) if kind == "image" else None,
            pooling=setting.pooling if kind == "entities" else None,
            mask=setting.mask or "",
        )


def _own_leaf(space: gymnasium.Space[Any], encoder: str, path: str) -> ObservationLeaf:
    shape, _ = known_kind(space).form(space)
    width = load_internal(TRIED_WIDTH)(encoder, space, path)
    return ObservationLeaf("own", shape, own=CustomEncoder(encoder, space, width))


def _within(path: str, key: object) -> str:
    return f"{path}/{key}" if path else str(key)


def _check_shape(kind: Encoding, shape: tuple[int, ...], path: str) -> None:
    """Validates the shape of an image, or of a set of entities.

    Raises:
        UsageError: The shape is invalid.
    """
    if kind == "image" and len(shape) not in (2, 3, 4):
        raise UsageError(
            f"model.observations: {path!r} of shape {shape} is not an image; images have shape [height, "
            "width], optionally with channels first or last and with a leading stack axis"
        )
    if kind == "entities" and len(shape) != 2:
        raise UsageError(
            f"model.observations: {path!r} of shape {shape} cannot be encoded as entities, which need shape "
            "[entities, features]"
        )


def _no_whole_numbers(kind: Encoding, found: str) -> UsageError:
    """Returns the error for an observation that cannot be encoded as one-hot or learned vectors."""
    vectors = "one-hot" if kind == "one_hot" else "learned"
    return UsageError(
        f"model.observations: {found}, but {vectors} encodings support whole numbers with at most "
        f"{MOST_SCALED_VALUES:,} values: set bounds, or encode_as: vector"
    )


def _is_countable(low: float, high: float) -> bool:
    return high - low < MOST_SCALED_VALUES and low.is_integer() and high.is_integer()


def _is_bounded(low: float, high: float, is_float: bool) -> bool:
    return math.isfinite(high - low) and (is_float or high - low < MOST_SCALED_VALUES)


def _default_encoding(shape: tuple[int, ...], dtype: np.dtype[Any], extent: float) -> Encoding:
    """Returns the default encoding of a numeric space, by shape, dtype and range."""
    is_large = len(shape) > 1 and sorted(shape[-3:])[-2] >= IMAGE_MIN_PIXELS
    if is_large and (len(shape) in (3, 4) or (len(shape) == 2 and dtype == np.uint8)):
        return "image"
    is_choice = bool(np.issubdtype(dtype, np.integer)) and 2 <= extent < MOST_ONE_HOT_VALUES
    return "one_hot" if is_choice and len(shape) <= 3 else "vector"


def _fitting_conv(shape: tuple[int, ...]) -> Conv:
    """Returns the default convolutions for an image shape: `nature` leaves too few pixels of small images."""
    _, height, width = ObservationLeaf("image", shape).channels_height_width
    return "nature" if min(height, width) >= NATURE_MIN_PIXELS else "small"


def entity_mask_places(tree: ObservationTree) -> list[int | None]:
    """Returns, for each observation entry, the index of the entry that masks its absent entities.

    The index is None for entries without a mask.
    """
    count = itertools.count()
    return list(_entity_mask_places(tree, map_tree(lambda _: next(count), tree), {}))


def _entity_mask_places(tree: ObservationTree, places: Any, beside: Mapping[str, int]) -> Iterator[int | None]:
    if isinstance(tree, dict):
        for key, part in tree.items():
            yield from _entity_mask_places(part, places[key], places)
    elif isinstance(tree, tuple):
        for part, within in zip(tree, places, strict=True):
            yield from _entity_mask_places(part, within, {})
    else:
        yield beside[tree.mask] if tree.mask else None


def is_masked(tree: ObservationTree) -> bool:
    """Whether the observation has an action mask among its entries."""
    return isinstance(tree, dict) and ACTION_MASK in tree and tree[ACTION_MASK].kind == "mask"


def has_privileges(model: ModelConfig) -> bool:
    """Whether the actor and the critics see different entries of an observation (privileged critics)."""
    return model.actor_sees is not None or model.critic_sees is not None


def encoded_leaves(tree: ObservationTree) -> ObservationTree:
    """Returns the encodings of all observation entries except the action mask and the features of actions.

    The main network encodes these entries.
    """
    if not isinstance(tree, dict):
        return tree
    apart = [key for key, part in tree.items() if isinstance(part, ObservationLeaf) and part.kind in APART]
    return {key: part for key, part in tree.items() if key not in apart} if apart else tree


def dense_inputs(tree: Any, observations: Any) -> NDArray[np.float32]:
    """Encodes B observations as features [B, D], concatenated over all entries; for encodings without parameters."""
    if isinstance(tree, ObservationLeaf):
        return tree.dense(observations)
    parts = leaves(map_tree(lambda leaf, column: leaf.dense(column), tree, observations))
    return np.concatenate(parts, axis=-1)
