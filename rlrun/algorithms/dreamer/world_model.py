"""Recurrent state-space model of DreamerV3, with actor and critic heads on its latent states (torch)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlrun.algorithms.dreamer.symlog import symlog
from rlrun.algorithms.dreamer.world_model_spec import NORM_EPSILON, NUM_CONVOLUTIONS, UNIFORM_SHARE, WorldModelSpec
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.nn.encoders import DenseEncoder
from rlrun.engine.nn.observation_leaf import ObservationLeaf

WORLD = "world_model."
ACTOR = "actor."
CRITIC = "critic."

ACTING = f"{WORLD}encoder"
"""Name prefix of the first parameter needed for acting; acting parameters are contiguous, and end with the actor."""

TRUNCATED_STD = 0.87962566103423978
"""Standard deviation of a standard normal distribution truncated to [-2, 2]."""


class NormedLinear(nn.Module):
    """Parameters of a dense layer without bias, and of its layer normalization (Ba et al., arXiv:1607.06450)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.scale = nn.Parameter(torch.ones(outputs))
        self.shift = nn.Parameter(torch.zeros(outputs))
        fill_by_fans(self.weight, inputs, outputs)


class NormedConvolution(nn.Module):
    """Parameters of a (transposed) 4x4 convolution without bias, and of its layer normalization."""

    def __init__(self, inputs: int, outputs: int, *, transposed: bool) -> None:
        super().__init__()
        first = (inputs, outputs) if transposed else (outputs, inputs)
        self.weight = nn.Parameter(torch.empty(*first, 4, 4))
        self.scale = nn.Parameter(torch.ones(outputs))
        self.shift = nn.Parameter(torch.zeros(outputs))
        fill_by_fans(self.weight, inputs * 16, outputs * 16)


def fill_by_fans(weight: Tensor, inputs: int, outputs: int, scale: float = 1.0) -> None:
    """Initializes weights from a truncated normal with standard deviation scale * sqrt(2 / (inputs + outputs))."""
    deviation = scale * math.sqrt(2.0 / (inputs + outputs)) / TRUNCATED_STD
    if deviation:
        nn.init.trunc_normal_(weight, 0.0, deviation, -2 * deviation, 2 * deviation)
    else:
        nn.init.zeros_(weight)


def output_layer(inputs: int, outputs: int, scale: float = 1.0) -> nn.Linear:
    """Creates an output layer with initial weights multiplied by `scale` and bias 0; scale 0 gives zero outputs."""
    layer = nn.Linear(inputs, outputs)
    with torch.no_grad():
        fill_by_fans(layer.weight, inputs, outputs, scale)
        layer.bias.zero_()
    return layer


def hidden_layers(inputs: int, hiddens: tuple[int, ...]) -> nn.ModuleList:
    """Creates a stack of dense layers with layer normalization."""
    return nn.ModuleList([NormedLinear(own, width) for own, width in zip((inputs, *hiddens), hiddens, strict=False)])


class MlpHead(nn.Module):
    """Parameters of an MLP with layer normalization and a linear output layer."""

    def __init__(self, inputs: int, hiddens: tuple[int, ...], outputs: int, scale: float = 1.0) -> None:
        super().__init__()
        self.hidden = hidden_layers(inputs, hiddens)
        self.output = output_layer(hiddens[-1], outputs, scale)


class ImageDecoder(nn.Module):
    """Parameters of the image decoder: transposed convolutions of a latent state."""

    def __init__(self, spec: WorldModelSpec, image: ObservationLeaf) -> None:
        super().__init__()
        channels = spec.convolved_channels
        self.first = output_layer(spec.features, math.prod(spec.convolved_shape(image)))
        self.layers = nn.ModuleList(
            [NormedConvolution(channels[i], channels[i - 1], transposed=True) for i in (3, 2, 1)]
        )
        self.last = nn.ConvTranspose2d(channels[0], image.channels_height_width[0], 4, 2, 1)


class WorldModelParameters(nn.Module):
    """Parameters of world model, actor and critic, ordered so that those needed for acting are contiguous.

    The order is: prior and predictors; encoder, recurrent model, posterior and actor; critic.

    Args:
        spec: Spec of the networks.
    """

    def __init__(self, spec: WorldModelSpec) -> None:
        super().__init__()
        hiddens, features, width = spec.hiddens, spec.features, spec.hiddens[-1]
        world = nn.ModuleDict()
        world["prior"] = MlpHead(spec.recurrent, (width,), spec.latent_width)
        if spec.dense_width:
            world["decoder"] = MlpHead(features, hiddens, spec.dense_width)
        if spec.images:
            world["image_decoders"] = nn.ModuleList([ImageDecoder(spec, leaf) for _, leaf in spec.images])
        world["reward"] = MlpHead(features, hiddens, spec.num_bins, scale=0.0)
        world["continue"] = MlpHead(features, hiddens, 1)
        if spec.dense_width:
            world["encoder"] = hidden_layers(spec.dense_width, hiddens)
        if spec.images:
            world["encoder_images"] = nn.ModuleList([convolutions(spec, leaf) for _, leaf in spec.images])
        world["inputs"] = NormedLinear(spec.latent_width + spec.action_width, width)
        world["gru"] = NormedLinear(width + spec.recurrent, 3 * spec.recurrent)
        world["posterior"] = MlpHead(spec.recurrent + spec.embedding_width, (width,), spec.latent_width)
        self.world_model = world
        self.actor = MlpHead(features, hiddens, spec.actor_outputs, scale=0.01)
        self.critic = MlpHead(features, hiddens, spec.num_bins, scale=0.0)
        self.return_range = nn.Parameter(torch.zeros(2))


def convolutions(spec: WorldModelSpec, image: ObservationLeaf) -> nn.ModuleList:
    """Creates the convolutions of the image encoder."""
    channels = (image.channels_height_width[0], *spec.convolved_channels)
    return nn.ModuleList(
        [NormedConvolution(channels[i], channels[i + 1], transposed=False) for i in range(NUM_CONVOLUTIONS)]
    )


@dataclass(frozen=True)
class States:
    """Latent states of a recurrent state-space model.

    Attributes:
        recurrent: Deterministic state h, [..., R].
        latent: Stochastic state z: K one-hot vectors, concatenated, [..., K * C].
    """

    recurrent: Tensor
    latent: Tensor

    @property
    def features(self) -> Tensor:
        """Deterministic and stochastic latent, concatenated, [..., R + K * C]."""
        return torch.cat([self.recurrent, self.latent], -1)


class WorldModel:
    """Forward passes of the networks of a world model, its actor and its critic.

    Args:
        spec: Spec of the networks.
        views: The policy's parameters by name.
    """

    def __init__(self, spec: WorldModelSpec, views: Mapping[str, Tensor]) -> None:
        self.spec = spec
        self.views = views

    def layer(self, name: str, inputs: Tensor) -> Tensor:
        """Applies a dense layer without bias, followed by layer normalization, before the activation."""
        return self.normed(name, F.linear(inputs, self.views[f"{name}.weight"]))

    def normed(self, name: str, products: Tensor) -> Tensor:
        """Layer normalization of a layer's pre-activations, with learned scale and shift."""
        scale, shift = self.views[f"{name}.scale"], self.views[f"{name}.shift"]
        return F.layer_norm(products, scale.shape, scale, shift, NORM_EPSILON)

    def hidden(self, name: str, inputs: Tensor) -> Tensor:
        """Forward pass of a stack of dense layers with layer normalization and SiLU."""
        i = 0
        while f"{name}.{i}.weight" in self.views:
            inputs = F.silu(self.layer(f"{name}.{i}", inputs))
            i += 1
        return inputs

    def head(self, name: str, inputs: Tensor) -> Tensor:
        """Forward pass of an MLP head: hidden layers and linear output layer."""
        return self.last(name, self.hidden(f"{name}.hidden", inputs))

    def last(self, name: str, inputs: Tensor) -> Tensor:
        """Applies the linear output layer of an MLP head to the outputs of its hidden layers."""
        return F.linear(inputs, self.views[f"{name}.output.weight"], self.views[f"{name}.output.bias"])

    def numbers(self, observations: Any) -> Tensor:
        """Symlog of the non-image leaves of observations [rows, steps, ...], concatenated to [rows, steps, D]."""
        columns = leaves(map_tree(lambda _, column: column, self.spec.leaves, observations))
        parts = []
        for i, leaf in self.spec.dense_parts:
            rows, length = columns[i].shape[:2]
            parts.append(DenseEncoder(leaf)(columns[i].flatten(0, 1)).view(rows, length, -1))
        return symlog(torch.cat(parts, -1))

    def pixels(self, observations: Any) -> list[Tensor]:
        """Image leaves of observations, scaled to [0, 1], channels first: [rows * steps, channels, H, W] each."""
        columns = leaves(map_tree(lambda _, column: column, self.spec.leaves, observations))
        return [channels_first(leaf, columns[i].flatten(0, 1)) for i, leaf in self.spec.images]

    def encode(self, observations: Any) -> Tensor:
        """Encodes a tree of observations [rows, steps, ...] as embeddings [rows, steps, E]."""
        rows, length = leaves(observations)[0].shape[:2]
        parts = [self.hidden(f"{WORLD}encoder", self.numbers(observations))] if self.spec.dense_width else []
        for i, image in enumerate(self.pixels(observations) if self.spec.images else []):
            parts.append(self.convolve(f"{WORLD}encoder_images.{i}", image).view(rows, length, -1))
        return torch.cat(parts, -1)

    def convolve(self, name: str, image: Tensor) -> Tensor:
        """Encodes images [N, channels, H, W] as flat features [N, ...], with convolutions."""
        features = image - 0.5
        for i in range(NUM_CONVOLUTIONS):
            own = f"{name}.{i}"
            features = F.conv2d(features, self.views[f"{own}.weight"], stride=2, padding=1)
            features = F.silu(self.normed_image(own, features))
        return features.flatten(1)

    def normed_image(self, name: str, features: Tensor) -> Tensor:
        """Layer normalization of feature maps [N, channels, H, W], over channels and pixels together."""
        return F.group_norm(features, 1, self.views[f"{name}.scale"], self.views[f"{name}.shift"], NORM_EPSILON)

    def decode_images(self, features: Tensor) -> list[Tensor]:
        """Decodes latent states [..., F] to images in [0, 1], [N, channels, H, W] for each image leaf."""
        rows = features.flatten(0, -2)
        return [self._decode_image(f"{WORLD}image_decoders.{i}", leaf, rows) for i, leaf in enumerate(self._images)]

    def _decode_image(self, name: str, image: ObservationLeaf, features: Tensor) -> Tensor:
        views = self.views
        first = F.linear(features, views[f"{name}.first.weight"], views[f"{name}.first.bias"])
        maps = first.view(-1, *self.spec.convolved_shape(image))
        for i in range(NUM_CONVOLUTIONS - 1):
            own = f"{name}.layers.{i}"
            maps = F.conv_transpose2d(maps, views[f"{own}.weight"], stride=2, padding=1)
            maps = F.silu(self.normed_image(own, maps))
        last = F.conv_transpose2d(maps, views[f"{name}.last.weight"], views[f"{name}.last.bias"], 2, 1)
        return last.sigmoid()

    @property
    def _images(self) -> list[ObservationLeaf]:
        return [leaf for _, leaf in self.spec.images]

    def probabilities(self, logits: Tensor) -> Tensor:
        """Categorical distributions [..., K, C] from logits [..., K * C], mixed with 1% uniform probability."""
        spec = self.spec
        softmax: Tensor = logits.view(*logits.shape[:-1], spec.latents, spec.classes).softmax(-1)
        return softmax * (1 - UNIFORM_SHARE) + UNIFORM_SHARE / spec.classes

    def prior(self, recurrent: Tensor) -> Tensor:
        """Prior distributions [..., K, C] of the stochastic latents given the recurrent state h [..., R]."""
        return self.probabilities(self.head(f"{WORLD}prior", recurrent))

    def recur(self, inputs: Tensor, recurrent: Tensor) -> Tensor:
        """Recurrent model: next h [N, R] from h [N, R] and embedded latents and actions [N, width].

        A GRU with layer normalization over all gates, and an update bias towards keeping the state.
        """
        inputs = F.silu(self.normed(f"{WORLD}inputs", inputs))
        gates = self.layer(f"{WORLD}gru", torch.cat([inputs, recurrent], -1))
        reset, candidate, update = gates.chunk(3, -1)
        candidate = (reset.sigmoid() * candidate).tanh()
        return recurrent + (update - 1).sigmoid() * (candidate - recurrent)

    def observe(
        self, embedded: Tensor, actions: Tensor, starts: Tensor, state: States, noise: Tensor
    ) -> tuple[States, Tensor]:
        """Unrolls the posterior over sequences of consecutive observations.

        Args:
            embedded: Encoded observations, [S, L, E].
            actions: Action before each observation, as input of the model, [S, L, A].
            starts: Mask of the first observations of episodes, [S, L], before which states are zero.
            state: Latent states before the sequences, [S, ...].
            noise: Uniform random numbers for sampling the latents, [S, L, K].

        Returns:
            States [S, L, ...] with straight-through gradients of the latents, and posterior distributions [S, L, K, C].
        """
        spec = self.spec
        keeps = 1 - starts.float().unsqueeze(-1)
        inputs_weight = self.views[f"{WORLD}inputs.weight"]
        of_latent, of_action = inputs_weight[:, : spec.latent_width], inputs_weight[:, spec.latent_width :]
        posterior = f"{WORLD}posterior.hidden.0"
        posterior_weight = self.views[f"{posterior}.weight"]
        recurrent_settings, of_embedded = posterior_weight[:, : spec.recurrent], posterior_weight[:, spec.recurrent :]
        # Computations that do not depend on the state run for all steps at once.
        acted = F.linear(actions * keeps, of_action).unbind(1)
        seen = F.linear(embedded, of_embedded).unbind(1)
        recurrent, latent = state.recurrent, state.latent
        recurrents, latents, distributions = [], [], []
        for t, (keep, draw) in enumerate(zip(keeps.unbind(1), noise.unbind(1), strict=True)):
            inputs = torch.addmm(acted[t], latent * keep, of_latent.t())
            recurrent = self.recur(inputs, recurrent * keep)
            hidden = F.silu(self.normed(posterior, torch.addmm(seen[t], recurrent, recurrent_settings.t())))
            distribution = self.probabilities(self.last(f"{WORLD}posterior", hidden))
            latent = (drawn(distribution, draw) + distribution - distribution.detach()).flatten(1)
            recurrents.append(recurrent)
            latents.append(latent)
            distributions.append(distribution)
        return States(torch.stack(recurrents, 1), torch.stack(latents, 1)), torch.stack(distributions, 1)

    def imagine(self, state: States, actions: Tensor, noise: Tensor) -> States:
        """Predicts the next latent states [N, ...], with stochastic latents sampled from the prior.

        Args:
            state: Latent states, [N, ...].
            actions: Actions taken in these states, as input of the model, [N, A].
            noise: Uniform random numbers for sampling the latents, [N, K].
        """
        inputs = F.linear(torch.cat([state.latent, actions], -1), self.views[f"{WORLD}inputs.weight"])
        recurrent = self.recur(inputs, state.recurrent)
        return States(recurrent, drawn(self.prior(recurrent), noise).flatten(1))


def drawn(distributions: Tensor, noise: Tensor) -> Tensor:
    """Samples categorical distributions by inverse transform sampling, without gradients.

    Args:
        distributions: Probabilities, [..., C].
        noise: Uniform random numbers, [...].

    Returns:
        One-hot vectors, [..., C].
    """
    with torch.no_grad():
        passed = (distributions.cumsum(-1)[..., :-1] <= noise.unsqueeze(-1)).to(distributions.dtype)
        ones = torch.ones_like(passed[..., :1])
        return torch.cat([ones, passed], -1) - torch.cat([passed, ones * 0], -1)


def channels_first(image: ObservationLeaf, images: Tensor) -> Tensor:
    """Scales N images to [0, 1], and moves channels first, [N, channels, H, W]; stacked frames become channels."""
    numbers = images.float()
    if len(image.shape) == 2:
        numbers = numbers.unsqueeze(1)
    elif image.channels_last:
        numbers = numbers.movedim(-1, -3)
    numbers = numbers.flatten(1, 2) if len(image.shape) == 4 else numbers
    return (numbers - image.low) * image.scale
