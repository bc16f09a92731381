"""Observation encoders (torch): one-hot, embeddings, CNNs for images, and pooling over sets of entities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.nn.dense_net import NORMALIZATION_EPSILON
from rlrun.engine.nn.model_config import Activation, Normalization
from rlrun.engine.nn.observation_leaf import EMBEDDING_FEATURES, ENTITY_FEATURES, MASKS, ObservationLeaf
from rlrun.engine.nn.observation_leaves import entity_mask_places
from rlrun.engine.settings.registry import load_internal

CUSTOM_ENCODER = "rlrun.engine.nn.custom_encoders:CustomEncoderModule"
"""Import path of the module class for custom encoders."""

ACTIVATIONS: dict[Activation, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU, "silu": nn.SiLU}

ATTENTION_HEADS = 4
"""Number of attention heads for pooling entities."""

MASKED_SCORE = -1e9
"""Attention logit of a masked entity."""


class NormalizedLinear(nn.Linear):
    """Dense layer followed by LayerNorm (Ba et al., arXiv:1607.06450)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.norm = nn.LayerNorm(outputs, eps=NORMALIZATION_EPSILON)

    @override
    def forward(self, x: Tensor) -> Tensor:
        """Maps [N, inputs] to [N, outputs]; each row has mean 0 and variance 1 before the learned scale and shift."""
        normalized: Tensor = self.norm(super().forward(x))
        return normalized


LINEAR_LAYERS: dict[Normalization | None, type[nn.Linear]] = {None: nn.Linear, "layer": NormalizedLinear}


def mlp(
    inputs: int,
    hiddens: Sequence[int],
    activation: Activation,
    layer: Normalization | Callable[[int, int], nn.Linear] | None = None,
) -> nn.Sequential:
    """Creates a multi-layer perceptron: linear layers, each followed by normalization (if any) and an activation.

    Args:
        inputs: Number of input features.
        hiddens: Widths of the layers.
        activation: Activation function after each layer.
        layer: Kind of normalization after each linear layer, or a function that creates the linear layer (with any
            normalization), given its numbers of inputs and outputs.
    """
    linear = layer if callable(layer) else LINEAR_LAYERS[layer]
    layers: list[nn.Module] = []
    for width in hiddens:
        layers += [linear(inputs, width), ACTIVATIONS[activation]()]
        inputs = width
    return nn.Sequential(*layers)


class UsersEncoder(nn.Module):
    """Base class of encoders that a user wrote; their layers keep the user's initialization.

    Attributes:
        width: Number of features, D.
    """

    width: int


class DenseEncoder(nn.Module):
    """Parameter-free encoder of an observation entry: keeps numbers or scales them to 0..1; integers become one-hot."""

    def __init__(self, leaf: ObservationLeaf) -> None:
        super().__init__()
        self.leaf = leaf
        self.width = leaf.width

    @override
    def forward(self, observations: Tensor) -> Tensor:
        """Encodes N observations [N, *shape] as feature vectors [N, width]."""
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
    """Encodes integer observations as one-hot float32 vectors: N observations become [N, integers, values]."""
    first, number = leaf.starts[0], leaf.sizes[0]
    values = torch.arange(first, first + number, device=observations.device)
    return (observations.reshape(len(observations), math.prod(leaf.shape), 1).long() == values).float()


class EmbeddingEncoder(nn.Module):
    """Encoder that looks up a learned vector (embedding) for each integer; integers out of range become zeros.

    All integers in an observation share one table of vectors.

    Args:
        leaf: Observation entry that holds integers.
    """

    def __init__(self, leaf: ObservationLeaf) -> None:
        super().__init__()
        self.leaf = leaf
        self.vectors = nn.Linear(leaf.sizes[0], EMBEDDING_FEATURES, bias=False)
        self.width = leaf.width

    @override
    def forward(self, observations: Tensor) -> Tensor:
        """Encodes N observations [N, *shape] as feature vectors [N, width]."""
        vectors: Tensor = self.vectors(one_hot(self.leaf, observations)).flatten(1)
        return vectors


class EntityEncoder(nn.Module):
    """Encoder of a set of entities that ignores their order: an MLP for each entity, then pooling over the set.

    A two-layer MLP, which all entities share, computes E features per entity. Pooling is the mean or maximum (deep
    sets), or multi-head attention with a learned query: each head weights its slice of the features, with logits linear
    in an entity's features. For an empty set the features are 0.

    Args:
        leaf: Observation entry that lists entities.

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

    @override
    def forward(self, entities: Tensor, mask: Tensor | None = None) -> Tensor:
        """Encodes N sets of up to K entities with F features, [N, K, F], as feature vectors [N, E].

        Args:
            entities: Feature vectors of the entities, [N, K, F].
            mask: 1 for each present entity, else 0, [N, K]; None if all are present.
        """
        shape = entities.shape[:2]
        is_there = torch.ones(shape, dtype=torch.bool, device=entities.device) if mask is None else mask != 0
        absent = ~is_there.unsqueeze(-1)
        # Values of an absent entity, even NaN, have no effect.
        numbers = entities.float().masked_fill(absent, 0.0)
        if self.leaf.is_scaled:
            numbers = (numbers - self.leaf.low) * self.leaf.scale
        features: Tensor = self.net(numbers).masked_fill(absent, 0.0)
        if self.leaf.pooling == "max":
            # After a ReLU, no feature is less than the zeros of absent entities.
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
    """CNN for images: pixels scaled to 0..1, convolutions, and a dense layer over the flattened features.

    Args:
        leaf: Observation entry that is an image.
        layers: Convolutional layers.
    """

    def __init__(self, leaf: ObservationLeaf, layers: nn.Sequential) -> None:
        super().__init__()
        self.leaf = leaf
        self.layers = layers
        with torch.no_grad():
            features = self.layers(torch.zeros(1, *leaf.channels_height_width)).numel()
        self.width = leaf.width
        self.dense = nn.Sequential(nn.Linear(features, self.width), nn.ReLU())

    @override
    def forward(self, images: Tensor) -> Tensor:
        """Encodes N images [N, *shape] as feature vectors [N, width]."""
        pixels = self._channels_first(images)
        # On CPUs, channels_last makes convolutions a quarter faster in training and a tenth slower in acting.
        layout = torch.channels_last if torch.is_grad_enabled() else torch.contiguous_format
        numbers = pixels.to(torch.float32, memory_format=layout)
        if self.leaf.low:
            numbers = numbers - self.leaf.low
        features: Tensor = self.dense(self.layers(numbers * self.leaf.scale).flatten(1))
        return features

    def _channels_first(self, images: Tensor) -> Tensor:
        """Permutes images to [N, channels, height, width]."""
        if len(self.leaf.shape) == 2:
            return images.unsqueeze(1)
        pixels = images.movedim(-1, -3) if self.leaf.channels_last else images
        return pixels.flatten(1, 2) if len(self.leaf.shape) == 4 else pixels


def nature_layers(channels: int, height: int, width: int) -> nn.Sequential:
    """Creates the CNN of Mnih et al., "Human-level control through deep reinforcement learning", 2015.

    Kernels are reduced to the image's size if the image is smaller.

    Args:
        channels: Number of image channels.
        height: Image height in pixels.
        width: Image width in pixels.
    """
    layers: list[nn.Module] = []
    for features, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
        kernel = min(size, height), min(size, width)
        layers += [nn.Conv2d(channels, features, kernel, stride), nn.ReLU()]
        height, width = ((side - own) // stride + 1 for side, own in zip((height, width), kernel, strict=True))
        channels = features
    return nn.Sequential(*layers)


class ResidualBlock(nn.Module):
    """Residual block of two 3 x 3 convolutions with a constant number of channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    @override
    def forward(self, x: Tensor) -> Tensor:
        """Adds the output of the two convolutions to the input, images [N, channels, height, width]."""
        corrected: Tensor = x + self.second(F.relu(self.first(F.relu(x))))
        return corrected


def impala_layers(channels: int) -> nn.Sequential:
    """Creates the deep residual CNN of IMPALA (Espeholt et al., arXiv:1802.01561, figure 3, right)."""
    layers: list[nn.Module] = []
    for width in (16, 32, 32):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.MaxPool2d(3, stride=2, padding=1)]
        layers += [ResidualBlock(width), ResidualBlock(width)]
        channels = width
    return nn.Sequential(*layers, nn.ReLU())


def small_layers(channels: int) -> nn.Sequential:
    """Creates a CNN for images with few pixels: two 3 x 3 convolutions, each of which halves height and width."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
    )  # fmt: skip


def encoder(
    leaf: ObservationLeaf,
) -> DenseEncoder | EmbeddingEncoder | EntityEncoder | ImageEncoder | UsersEncoder:
    """Creates the torch module that encodes one entry of an observation."""
    if leaf.own is not None:
        custom: UsersEncoder = load_internal(CUSTOM_ENCODER)(leaf.own)
        return custom
    match leaf.kind:
        case "image":
            form = leaf.channels_height_width
            match leaf.conv:
                case "nature":
                    layers = nature_layers(*form)
                case "impala":
                    layers = impala_layers(form[0])
                case "small":
                    layers = small_layers(form[0])
            return ImageEncoder(leaf, layers)
        case "entities":
            return EntityEncoder(leaf)
        case "embedding":
            return EmbeddingEncoder(leaf)
    return DenseEncoder(leaf)


class ObservationEncoder(nn.Module):
    """Encodes each entry of a nested observation, and concatenates the resulting features.

    Attributes:
        width: Number of features, D.

    Args:
        tree: Encoding of each observation entry, in the structure of the observation space.
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

    @override
    def forward(self, observations: Any) -> Tensor:
        """Encodes a tree of N observations as feature vectors [N, D]."""
        # Matched by key, since a caller's observation may have its keys in a different order than the space.
        columns = leaves(map_tree(lambda _, column: column, self.tree, observations))
        encoded = [part(*(columns[i] for i in places)) for part, places in zip(self.parts, self._places, strict=True)]
        return encoded[0] if len(encoded) == 1 else torch.cat(encoded, -1)


@torch.no_grad()
def initialize_orthogonally(module: nn.Module, gain: float, generator: torch.Generator) -> None:
    """Initializes all dense and convolutional layers of a module with orthogonal weights and zero biases.

    The weights are the same on all processors: LAPACK's results, whose last digits depend on the processor, are
    computed in float64 and rounded to multiples of 2**-18. Encoders written by users keep their own initialization.
    """
    foreign = {part for own in module.modules() if isinstance(own, UsersEncoder) for part in own.modules()}
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv2d) and part not in foreign:
            weight = torch.empty(part.weight.shape, dtype=torch.float64)
            nn.init.orthogonal_(weight, gain, generator=generator)
            part.weight.copy_((weight * 2**18).round() / 2**18)
            if part.bias is not None:
                nn.init.zeros_(part.bias)


HIDDEN_GAIN = math.sqrt(2)
