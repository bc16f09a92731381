"""Encoders of observations in torch: dense parts as they are, images by convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlrun.data.tree import leaves, map_tree
from rlrun.errors import UsageError
from rlrun.nn.model_config import Activation, Conv
from rlrun.nn.network_spec import IMAGE_FEATURES
from rlrun.nn.observation_leaves import ObservationLeaf

ACTIVATIONS: dict[Activation, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU, "silu": nn.SiLU}

NATURE_MIN_PIXELS = 36
"""Side of the smallest image of which the `nature` convolutions leave anything."""


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
            first, number = self.leaf.starts[0], self.leaf.sizes[0]
            values = torch.arange(first, first + number, device=observations.device)
            same = observations.reshape(len(observations), math.prod(self.leaf.shape), 1).long() == values
            return same.reshape(len(observations), self.width).float()
        integers = observations.reshape(len(observations), -1, 1)
        parts = [
            integers[:, i] == torch.arange(start, start + size, device=integers.device)
            for i, (size, start) in enumerate(zip(self.leaf.sizes, self.leaf.starts, strict=True))
        ]
        return torch.cat(parts, -1).float()


class ImageEncoder(nn.Module):
    """Convolutions between pixels in 0..1, channels first, and a dense layer over their flattened features.

    Args:
        leaf: The image.
        layers: The convolutions.
        width: Numbers that the dense layer puts out.
    """

    def __init__(self, leaf: ObservationLeaf, layers: nn.Sequential, width: int) -> None:
        super().__init__()
        self.leaf = leaf
        self.layers = layers
        with torch.no_grad():
            features = self.layers(torch.zeros(1, *leaf.channels_height_width)).numel()
        self.dense = nn.Sequential(nn.Linear(features, width), nn.ReLU())
        self.width = width

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


def nature_layers(channels: int) -> nn.Sequential:
    """Returns the convolutions of Mnih et al., "Human-level control through deep reinforcement learning", 2015."""
    return nn.Sequential(
        nn.Conv2d(channels, 32, 8, stride=4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=1),
        nn.ReLU(),
    )


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


def encoder(leaf: ObservationLeaf, conv: Conv) -> DenseEncoder | ImageEncoder:
    """Returns the encoder for one part of an observation.

    Raises:
        UsageError: An image is too small for the convolutions.
    """
    if leaf.kind != "image":
        return DenseEncoder(leaf)
    channels, height, width = leaf.channels_height_width
    if conv == "nature":
        if min(height, width) < NATURE_MIN_PIXELS:
            raise UsageError(
                f"images of {height} x {width} pixels are too small for the convolutions of model.conv: nature, which "
                f"take {NATURE_MIN_PIXELS} x {NATURE_MIN_PIXELS} and more; set it to impala, or "
                "model.observations: {KEY: {encode_as: vector}} if that is no image"
            )
        return ImageEncoder(leaf, nature_layers(channels), IMAGE_FEATURES[conv])
    return ImageEncoder(leaf, impala_layers(channels), IMAGE_FEATURES[conv])


class ObservationEncoder(nn.Module):
    """Encodes every part of a nested observation and puts the features side by side.

    Attributes:
        width: D, the number of features.

    Args:
        tree: The tree of `ObservationLeaf`.
        conv: How images are encoded.
    """

    def __init__(self, tree: Any, conv: Conv) -> None:
        super().__init__()
        self.tree = tree
        parts = [encoder(leaf, conv) for leaf in leaves(tree)]
        self.parts = nn.ModuleList(parts)
        self.width = sum(part.width for part in parts)

    def forward(self, observations: Any) -> Tensor:
        """Encodes a tree of observations [N, ...] as [N, D]."""
        # By key: what a caller observes may name its parts in another order than the space, which sorts them.
        columns = leaves(map_tree(lambda _, column: column, self.tree, observations))
        encoded = [part(column) for part, column in zip(self.parts, columns, strict=True)]
        return encoded[0] if len(encoded) == 1 else torch.cat(encoded, -1)


def initialize_orthogonally(module: nn.Module, gain: float, generator: torch.Generator) -> None:
    """Makes the weights of all dense and convolutional layers in a module orthogonal and their biases 0."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv2d):
            nn.init.orthogonal_(part.weight, gain, generator=generator)
            if part.bias is not None:
                nn.init.zeros_(part.bias)


HIDDEN_GAIN = math.sqrt(2)
