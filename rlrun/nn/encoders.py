"""Encoders of observations in torch: dense parts as they are, images by convolutions, sets of entities by pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlrun.data.tree import leaves, map_tree
from rlrun.nn.model_config import Activation
from rlrun.nn.observation_leaf import EMBEDDING_FEATURES, ENTITY_FEATURES, MASKS, ObservationLeaf
from rlrun.nn.observation_leaves import entity_mask_places
from rlrun.nn.own_encoders import OwnModule

ACTIVATIONS: dict[Activation, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU, "silu": nn.SiLU}

ATTENTION_HEADS = 4
"""Heads of the attention over entities."""

MASKED_SCORE = -1e9
"""Attention score of an entity that is not there."""


def mlp(inputs: int, hiddens: Sequence[int], activation: Activation) -> nn.Sequential:
    """Returns dense layers, each followed by the activation."""
    layers: list[nn.Module] = []
    for width in hiddens:
        layers += [nn.Linear(inputs, width), ACTIVATIONS[activation]()]
        inputs = width
    return nn.Sequential(*layers)


class DenseEncoder(nn.Module):
    """Numbers as they are or between 0 and 1, choices as one-hot vectors; without parameters."""

    def __init__(self, leaf: ObservationLeaf) -> None:
        super().__init__()
        self.leaf = leaf
        self.width = leaf.width

    def forward(self, observations: Tensor) -> Tensor:
        """Encodes [N, *shape] as [N, width]."""
        if self.leaf.kind == "vector":
            numbers = observations.reshape(len(observations), self.width).float()
            return (numbers - self.leaf.low) * self.leaf.scale if self.leaf.is_scaled else numbers
        if self.leaf.kind == "one_hot":
            return one_hot(self.leaf, observations).reshape(len(observations), self.width)
        integers = observations.reshape(len(observations), -1, 1)
        parts = [
            integers[:, i] == torch.arange(start, start + size, device=integers.device)
            for i, (size, start) in enumerate(zip(self.leaf.sizes, self.leaf.starts, strict=True))
        ]
        return torch.cat(parts, -1).float()


def one_hot(leaf: ObservationLeaf, observations: Tensor) -> Tensor:
    """Returns a one-hot vector for each integer of observations [N, *shape], [N, integers, values] of float32."""
    first, number = leaf.starts[0], leaf.sizes[0]
    values = torch.arange(first, first + number, device=observations.device)
    return (observations.reshape(len(observations), math.prod(leaf.shape), 1).long() == values).float()


class EmbeddingEncoder(nn.Module):
    """A learned vector for each value of an integer, the same wherever it stands; zeros for a value out of bounds.

    Args:
        leaf: The integers.
    """

    def __init__(self, leaf: ObservationLeaf) -> None:
        super().__init__()
        self.leaf = leaf
        self.vectors = nn.Linear(leaf.sizes[0], EMBEDDING_FEATURES, bias=False)
        self.width = leaf.width

    def forward(self, observations: Tensor) -> Tensor:
        """Encodes [N, *shape] as [N, width]."""
        vectors: Tensor = self.vectors(one_hot(self.leaf, observations)).flatten(1)
        return vectors


class EntityEncoder(nn.Module):
    """Pooling over a set of entities: their order does not matter, nor do those that are masked.

    A net with two layers, the same for all, makes E numbers of each entity. What is put out is their mean or their
    maximum (deep sets), or their mean weighted by attention, each head of which has weights of its own for its share
    of the numbers. As its query is learned instead of computed, an entity's scores are a linear function of its
    numbers. Without any entity all are 0.

    Args:
        leaf: The entities.

    Source:
        Zaheer et al., "Deep sets", arXiv:1703.06114, eq. 2. Lee et al., "Set transformer", arXiv:1810.00825, section
        3.2: pooling by multihead attention with one seed vector.
    """

    def __init__(self, leaf: ObservationLeaf) -> None:
        super().__init__()
        self.leaf = leaf
        self.width = leaf.width
        self.net = mlp(leaf.shape[1], (ENTITY_FEATURES, ENTITY_FEATURES), "relu")
        if leaf.pooling == "attention":
            self.scores = nn.Linear(ENTITY_FEATURES, ATTENTION_HEADS, bias=False)

    def forward(self, entities: Tensor, mask: Tensor | None = None) -> Tensor:
        """Encodes entities [N, K, F] as [N, E].

        Args:
            entities: The entities.
            mask: 1 for each that is there, else 0, [N, K]; None if all are.
        """
        shape = entities.shape[:2]
        is_there = torch.ones(shape, dtype=torch.bool, device=entities.device) if mask is None else mask != 0
        absent = ~is_there.unsqueeze(-1)
        # Whatever stands in the place of an entity that is not there, be it NaN, comes to nothing.
        numbers = entities.float().masked_fill(absent, 0.0)
        if self.leaf.is_scaled:
            numbers = (numbers - self.leaf.low) * self.leaf.scale
        features: Tensor = self.net(numbers).masked_fill(absent, 0.0)
        if self.leaf.pooling == "max":
            # Behind a ReLU no feature is less than the zeros of those that are not there.
            return features.amax(1)
        if self.leaf.pooling == "mean":
            mean: Tensor = features.sum(1) / is_there.sum(1, keepdim=True).clamp(min=1)
            return mean
        scores = self.scores(features).float() / ENTITY_FEATURES**0.5
        weights = scores.masked_fill(absent, MASKED_SCORE).softmax(1).to(features.dtype)
        by_head = features.view(*shape, ATTENTION_HEADS, -1)
        pooled: Tensor = (weights.unsqueeze(-1) * by_head).sum(1).flatten(1)
        return pooled


class ImageEncoder(nn.Module):
    """Convolutions between pixels in 0..1, channels first, and a dense layer over their flattened features.

    Args:
        leaf: The image.
        layers: The convolutions.
    """

    def __init__(self, leaf: ObservationLeaf, layers: nn.Sequential) -> None:
        super().__init__()
        self.leaf = leaf
        self.layers = layers
        with torch.no_grad():
            features = self.layers(torch.zeros(1, *leaf.channels_height_width)).numel()
        self.width = leaf.width
        self.dense = nn.Sequential(nn.Linear(features, self.width), nn.ReLU())

    def forward(self, images: Tensor) -> Tensor:
        """Encodes images [N, *shape] as [N, width]."""
        pixels = self._channels_first(images)
        # A CPU's convolutions take a quarter less time to learn if a pixel's channels lie side by side, and a tenth
        # more to act.
        layout = torch.channels_last if torch.is_grad_enabled() else torch.contiguous_format
        numbers = pixels.to(torch.float32, memory_format=layout)
        if self.leaf.low:
            numbers = numbers - self.leaf.low
        features: Tensor = self.dense(self.layers(numbers * self.leaf.scale).flatten(1))
        return features

    def _channels_first(self, images: Tensor) -> Tensor:
        """Returns images as [N, channels, height, width]."""
        if len(self.leaf.shape) == 2:
            return images.unsqueeze(1)
        pixels = images.movedim(-1, -3) if self.leaf.channels_last else images
        return pixels.flatten(1, 2) if len(self.leaf.shape) == 4 else pixels


def nature_layers(channels: int, height: int, width: int) -> nn.Sequential:
    """Returns the convolutions of Mnih et al., "Human-level control through deep reinforcement learning", 2015.

    In an image that is smaller than a convolution's kernel the kernel is as large as what there is.

    Args:
        channels: Of the image.
        height: In pixels.
        width: In pixels.
    """
    layers: list[nn.Module] = []
    for features, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
        kernel = min(size, height), min(size, width)
        layers += [nn.Conv2d(channels, features, kernel, stride), nn.ReLU()]
        height, width = ((side - own) // stride + 1 for side, own in zip((height, width), kernel, strict=True))
        channels = features
    return nn.Sequential(*layers)


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions beside the identity; the number of channels stays."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Adds the block's correction to its input."""
        corrected: Tensor = x + self.second(F.relu(self.first(F.relu(x))))
        return corrected


def impala_layers(channels: int) -> nn.Sequential:
    """Returns the deep residual net of Espeholt et al., arXiv:1802.01561, figure 3 (right)."""
    layers: list[nn.Module] = []
    for width in (16, 32, 32):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.MaxPool2d(3, stride=2, padding=1)]
        layers += [ResidualBlock(width), ResidualBlock(width)]
        channels = width
    return nn.Sequential(*layers, nn.ReLU())


Encoder = DenseEncoder | EmbeddingEncoder | EntityEncoder | ImageEncoder | OwnModule


def encoder(leaf: ObservationLeaf) -> Encoder:
    """Returns the encoder for one part of an observation."""
    if leaf.own is not None:
        return OwnModule(leaf.own)
    match leaf.kind:
        case "image":
            form = leaf.channels_height_width
            return ImageEncoder(leaf, nature_layers(*form) if leaf.conv == "nature" else impala_layers(form[0]))
        case "entities":
            return EntityEncoder(leaf)
        case "embedding":
            return EmbeddingEncoder(leaf)
    return DenseEncoder(leaf)


class ObservationEncoder(nn.Module):
    """Encodes every part of a nested observation and puts the features side by side.

    Attributes:
        width: D, the number of features.

    Args:
        tree: The tree of `ObservationLeaf`.
    """

    def __init__(self, tree: Any) -> None:
        super().__init__()
        self.tree = tree
        masks = entity_mask_places(tree)
        encoded = [(i, leaf) for i, leaf in enumerate(leaves(tree)) if leaf.kind not in MASKS]
        self._places = [(i,) if (mask := masks[i]) is None else (i, mask) for i, _ in encoded]
        parts = [encoder(leaf) for _, leaf in encoded]
        self.parts = nn.ModuleList(parts)
        self.width = sum(part.width for part in parts)

    def forward(self, observations: Any) -> Tensor:
        """Encodes a tree of observations [N, ...] as [N, D]."""
        # By key: what a caller observes may name its parts in another order than the space, which sorts them.
        columns = leaves(map_tree(lambda _, column: column, self.tree, observations))
        encoded = [part(*(columns[i] for i in places)) for part, places in zip(self.parts, self._places, strict=True)]
        return encoded[0] if len(encoded) == 1 else torch.cat(encoded, -1)


def initialize_orthogonally(module: nn.Module, gain: float, generator: torch.Generator) -> None:
    """Makes the weights of all dense and convolutional layers in a module orthogonal and their biases 0.

    Encoders from outside of rlrun stay as they were made.
    """
    foreign = {part for own in module.modules() if isinstance(own, OwnModule) for part in own.modules()}
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv2d) and part not in foreign:
            nn.init.orthogonal_(part.weight, gain, generator=generator)
            if part.bias is not None:
                nn.init.zeros_(part.bias)


HIDDEN_GAIN = math.sqrt(2)
