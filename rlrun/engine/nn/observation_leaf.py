"""Encoding of one entry of an observation as input of a network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.engine.nn.model_config import Conv, Pooling

IMAGE_FEATURES: dict[Conv, int] = {"nature": 512, "impala": 256, "small": 128}
"""Number of output features of each image encoder."""

ENTITY_FEATURES = 64
"""Number of features of an encoded set of entities."""

EMBEDDING_FEATURES = 8
"""Width of the learned embedding of an integer."""

MASKS = ("mask", "entity_mask")
"""Kinds of leaves that mask other leaves or actions, and are not inputs of a network."""


APART = ("mask", "actions")
"""Kinds of top-level leaves of an observation that have no encoder."""


@dataclass(frozen=True)
class CustomEncoder:
    """Encoder that a user wrote for an observation entry, referenced by its import path.

    Attributes:
        path: Import path of the encoder, `package.module:Class`.
        space: Space of the observation entry, passed to the encoder's constructor.
        width: Number of output features, D.
    """

    path: str
    space: gymnasium.Space[Any]
    width: int


@dataclass(frozen=True)
class ObservationLeaf:
    """One entry (an array) of a possibly nested observation, with its encoding for a network.

    Attributes:
        kind: Kind of encoding. `vector`: numbers. `choices`: one-hot encoded integers of a Discrete or MultiDiscrete
            space. `one_hot`: one-hot encoded integers of a Box. `embedding`: learned vectors of integers. `image`:
            convolutions. `entities`: pooling over a set. `own`: an encoder that a user wrote. `entity_mask`: the mask
            of present entities. `mask`: the action mask. `actions`: features of the available actions, embedded
            separately.
        shape: Shape of the entry in the env's observation.
        sizes: Number of values of each integer, one per choice; or (n,), the same number n for all integers.
        starts: Smallest value of each integer, in the layout of `sizes`.
        is_normalized: Whether the entry's numbers are normalized by running mean and variance.
        scale: Factor that scales the numbers of a vector, an image or entities to 0..1.
        low: Lower bound of the numbers, subtracted before scaling.
        conv: Architecture of the convolutions of an image; None if the policy has custom convolutions.
        pooling: Kind of pooling over a set of entities.
        mask: Key of the entity mask in the same Dict; "" if all entities are present.
        own: User's encoder of the entry; None without one.
    """

    kind: Literal[
        "vector", "choices", "one_hot", "embedding", "image", "entities", "own", "entity_mask", "mask", "actions"
    ]
    shape: tuple[int, ...]
    sizes: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    is_normalized: bool = False
    scale: float = 1.0
    low: float = 0.0
    conv: Conv | None = None
    pooling: Pooling | None = None
    mask: str = ""
    own: CustomEncoder | None = None

    @property
    def width(self) -> int:
        """Number of features that encode this observation entry."""
        if self.kind == "vector":
            return math.prod(self.shape)
        if self.conv is not None:
            return IMAGE_FEATURES[self.conv]
        if self.own is not None:
            return self.own.width
        match self.kind:
            case "choices":
                return sum(self.sizes)
            case "one_hot":
                return math.prod(self.shape) * self.sizes[0]
            case "embedding":
                return math.prod(self.shape) * EMBEDDING_FEATURES
            case "entities":
                return ENTITY_FEATURES
        return 0  # masks have no features

    @property
    def is_dense(self) -> bool:
        """Whether the encoding has no parameters, so that NumPy can compute it."""
        return self.kind in ("vector", "choices", "one_hot")

    @property
    def is_scaled(self) -> bool:
        """Whether the entry's numbers are scaled to 0..1."""
        return self.scale != 1.0 or self.low != 0.0

    @property
    def channels_last(self) -> bool:
        """Whether the last axis of an image holds its channels."""
        return len(self.shape) > 2 and self.shape[-1] <= self.shape[-3]

    @property
    def channels_height_width(self) -> tuple[int, int, int]:
        """Shape [channels, height, width] of the image as input of convolutions.

        A stack of images counts as one image with more channels.
        """
        *stack, first, second, third = self.shape if len(self.shape) > 2 else (1, *self.shape)
        channels, height, width = (third, first, second) if self.channels_last else (first, second, third)
        return math.prod(stack) * channels, height, width

    def dense(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """Encodes B observations [B, *shape] as features [B, width], for encodings without parameters."""
        if self.kind == "vector":
            numbers = observations.reshape(len(observations), self.width).astype(np.float32, copy=False)
            return (numbers - self.low) * self.scale if self.is_scaled else numbers
        if self.kind == "one_hot":
            values = np.arange(self.starts[0], self.starts[0] + self.sizes[0])
            found = observations.reshape(len(observations), math.prod(self.shape), 1) == values
            one_hot: NDArray[np.float32] = found.reshape(len(observations), self.width).astype(np.float32)
            return one_hot
        indices = observations.reshape(len(observations), -1) - np.asarray(self.starts)
        encoded = np.zeros_like(indices, np.float32, shape=(len(observations), self.width))
        firsts = np.cumsum((0, *self.sizes[:-1]))
        np.put_along_axis(encoded, indices + firsts, 1.0, -1)
        return encoded

    def describe(self) -> str:
        """Returns a description of the encoding in a few words, for messages."""
        shape = "x".join(map(str, self.shape)) or "1"
        match self.kind:
            case "mask":
                return "action mask, not an input of the network"
            case "actions":
                return f"{self.shape[1]} features of each of {self.shape[0]} actions, embedded"
            case "entity_mask":
                return f"mask of {shape} entities"
            case "choices" if len(self.shape) > 1:
                return f"{shape} choices, one-hot encoded ({self.width:,} values in total)"
            case "choices" if len(self.sizes) == 1:
                return f"one choice of {self.sizes[0]} values, one-hot encoded"
            case "choices":
                return f"choices of {', '.join(map(str, self.sizes))} values, one-hot encoded"
            case "one_hot":
                return f"{shape} {self._values()}, one-hot encoded"
            case "embedding":
                return f"{shape} {self._values()}, each embedded as {EMBEDDING_FEATURES} features"
            case "entities":
                pooled = f"the entities in {self.mask}" if self.mask else "all entities"
                return (
                    f"entities {shape}, {self._scaling()}, pooled by {self.pooling} over {pooled} into "
                    f"{self._features()}"
                )
            case "image":
                return f"image {shape}, {self._scaling()}, encoded by {self.conv or 'custom convolutions'}"
        if self.own is not None:
            return f"shape {shape}, encoded by {self.own.path} into {self._features()}"
        numbers = "1 number" if shape == "1" else f"{shape} numbers"
        return (
            f"vector of {numbers}, "
            f"{'normalized by running mean and variance' if self.is_normalized else self._scaling()}"
        )

    def _features(self) -> str:
        return f"{self.width} {'feature' if self.width == 1 else 'features'}"

    def _values(self) -> str:
        values = "values" if self.shape not in ((), (1,)) else "value"
        return f"{values} from {self.starts[0]} to {self.starts[0] + self.sizes[0] - 1}"

    def _scaling(self) -> str:
        if not self.is_scaled:
            return "unscaled"
        below = f"{self.low:g} subtracted, " if self.low else ""
        return f"{below}scaled by {f'1/{1 / self.scale:g}' if self.scale < 1 else f'{self.scale:g}'}"
