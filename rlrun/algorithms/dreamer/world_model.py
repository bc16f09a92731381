"""A world model, an actor and a critic on its states, over rows of consecutive steps (torch)."""

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
from rlrun.data.tree import leaves, map_tree
from rlrun.nn.encoders import DenseEncoder
from rlrun.nn.observation_leaf import ObservationLeaf

WORLD = "world_model."
ACTOR = "actor."
CRITIC = "critic."

ACTING = f"{WORLD}encoder"
"""Prefix of the first acting parameter's name; the acting ones are contiguous up to the actor's last one."""

TRUNCATED_STD = 0.87962566103423978
"""Standard deviation of a standard normal variable that is cut off at -2 and 2."""


class NormedLinear(nn.Module):
    """Parameters of a dense layer without bias whose outputs are normalised (Ba et al., arXiv:1607.06450)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.scale = nn.Parameter(torch.ones(outputs))
        self.shift = nn.Parameter(torch.zeros(outputs))
        fill_by_fans(self.weight, inputs, outputs)


class NormedConvolution(nn.Module):
    """Parameters of a convolution, or of a transposed one, without bias whose outputs are normalised."""

    def __init__(self, inputs: int, outputs: int, *, transposed: bool) -> None:
        super().__init__()
        first = (inputs, outputs) if transposed else (outputs, inputs)
        self.weight = nn.Parameter(torch.empty(*first, 4, 4))
        self.scale = nn.Parameter(torch.ones(outputs))
        self.shift = nn.Parameter(torch.zeros(outputs))
        fill_by_fans(self.weight, inputs * 16, outputs * 16)


def fill_by_fans(weight: Tensor, inputs: int, outputs: int, scale: float = 1.0) -> None:
    """Fills weights with truncated normal numbers of variance 2 / (inputs + outputs), times the square of a scale."""
    deviation = scale * math.sqrt(2.0 / (inputs + outputs)) / TRUNCATED_STD
    if deviation:
        nn.init.trunc_normal_(weight, 0.0, deviation, -2 * deviation, 2 * deviation)
    else:
        nn.init.zeros_(weight)


def output_layer(inputs: int, outputs: int, scale: float = 1.0) -> nn.Linear:
    """Returns a last layer, whose first outputs are so much smaller; all 0 with a scale of 0."""
    layer = nn.Linear(inputs, outputs)
    with torch.no_grad():
        fill_by_fans(layer.weight, inputs, outputs, scale)
        layer.bias.zero_()
    return layer


def hidden_layers(inputs: int, hiddens: tuple[int, ...]) -> nn.ModuleList:
    """Returns a stack of dense layers with layer normalisation."""
    return nn.ModuleList([NormedLinear(own, width) for own, width in zip((inputs, *hiddens), hiddens, strict=False)])


class Head(nn.Module):
    """Parameters of a stack of dense layers and an output layer."""

    def __init__(self, inputs: int, hiddens: tuple[int, ...], outputs: int, scale: float = 1.0) -> None:
        super().__init__()
        self.hidden = hidden_layers(inputs, hiddens)
        self.output = output_layer(hiddens[-1], outputs, scale)


class ImageDecoder(nn.Module):
    """Parameters of transposed convolutions from a state to an image."""

    def __init__(self, spec: WorldModelSpec, image: ObservationLeaf) -> None:
        super().__init__()
        channels = spec.convolved_channels
        self.first = output_layer(spec.features, math.prod(spec.convolved_shape(image)))
        self.layers = nn.ModuleList(
            [NormedConvolution(channels[i], channels[i - 1], transposed=True) for i in (3, 2, 1)]
        )
        self.last = nn.ConvTranspose2d(channels[0], image.channels_height_width[0], 4, 2, 1)


class WorldModelParameters(nn.Module):
    """All parameters: what only learns first, then what acts too, the actor, and what only learns again.

    Args:
        spec: The description.
    """

    def __init__(self, spec: WorldModelSpec) -> None:
        super().__init__()
        hiddens, features, width = spec.hiddens, spec.features, spec.hiddens[-1]
        world = nn.ModuleDict()
        world["prior"] = Head(spec.recurrent, (width,), spec.latent_width)
        if spec.dense_width:
            world["decoder"] = Head(features, hiddens, spec.dense_width)
        if spec.images:
            world["image_decoders"] = nn.ModuleList([ImageDecoder(spec, leaf) for _, leaf in spec.images])
        world["reward"] = Head(features, hiddens, spec.num_bins, scale=0.0)
        world["continue"] = Head(features, hiddens, 1)
        if spec.dense_width:
            world["encoder"] = hidden_layers(spec.dense_width, hiddens)
        if spec.images:
            world["encoder_images"] = nn.ModuleList([convolutions(spec, leaf) for _, leaf in spec.images])
        world["inputs"] = NormedLinear(spec.latent_width + spec.action_width, width)
        world["gru"] = NormedLinear(width + spec.recurrent, 3 * spec.recurrent)
        world["posterior"] = Head(spec.recurrent + spec.embedding_width, (width,), spec.latent_width)
        self.world_model = world
        self.actor = Head(features, hiddens, spec.actor_outputs, scale=0.01)
        self.critic = Head(features, hiddens, spec.num_bins, scale=0.0)
        self.return_range = nn.Parameter(torch.zeros(2))


def convolutions(spec: WorldModelSpec, image: ObservationLeaf) -> nn.ModuleList:
    """Returns the parameters of convolutions over an image."""
    channels = (image.channels_height_width[0], *spec.convolved_channels)
    return nn.ModuleList(
        [NormedConvolution(channels[i], channels[i + 1], transposed=False) for i in range(NUM_CONVOLUTIONS)]
    )


@dataclass(frozen=True)
class States:
    """States of a world model.

    Attributes:
        recurrent: h, [..., R].
        latent: z, K one-hot vectors, concatenated, [..., K * C].
    """

    recurrent: Tensor
    latent: Tensor

    @property
    def features(self) -> Tensor:
        """Deterministic and stochastic latent, concatenated, [..., R + K * C]."""
        return torch.cat([self.recurrent, self.latent], -1)


class WorldModel:
    """Runs a world model, an actor and a critic with parameters that are given by name.

    Args:
        spec: The description.
        views: The policy's parameters by name.
    """

    def __init__(self, spec: WorldModelSpec, views: Mapping[str, Tensor]) -> None:
        self.spec = spec
        self.views = views

    def layer(self, name: str, inputs: Tensor) -> Tensor:
        """Returns the outputs of a normalised dense layer before its activation."""
        return self.normed(name, F.linear(inputs, self.views[f"{name}.weight"]))

    def normed(self, name: str, products: Tensor) -> Tensor:
        """Normalises what a layer's weights have made of its inputs."""
        scale, shift = self.views[f"{name}.scale"], self.views[f"{name}.shift"]
        return F.layer_norm(products, scale.shape, scale, shift, NORM_EPSILON)

    def hidden(self, name: str, inputs: Tensor) -> Tensor:
        """Runs a stack of dense layers."""
        i = 0
        while f"{name}.{i}.weight" in self.views:
            inputs = F.silu(self.layer(f"{name}.{i}", inputs))
            i += 1
        return inputs

    def head(self, name: str, inputs: Tensor) -> Tensor:
        """Runs a stack of dense layers and the output layer."""
        return self.last(name, self.hidden(f"{name}.hidden", inputs))

    def last(self, name: str, inputs: Tensor) -> Tensor:
        """Runs the last layer of a head."""
        return F.linear(inputs, self.views[f"{name}.output.weight"], self.views[f"{name}.output.bias"])

    def numbers(self, observations: Any) -> Tensor:
        """Returns the parts of observations [S, L, ...] that enter as numbers, as symlog of them, [S, L, D]."""
        columns = leaves(map_tree(lambda _, column: column, self.spec.leaves, observations))
        parts = []
        for i, leaf in self.spec.dense_parts:
            rows, length = columns[i].shape[:2]
            parts.append(DenseEncoder(leaf)(columns[i].flatten(0, 1)).view(rows, length, -1))
        return symlog(torch.cat(parts, -1))

    def pixels(self, observations: Any) -> list[Tensor]:
        """Returns the images of observations [S, L, ...] between 0 and 1, channels first, [S * L, channels, H, W]."""
        columns = leaves(map_tree(lambda _, column: column, self.spec.leaves, observations))
        return [channels_first(leaf, columns[i].flatten(0, 1)) for i, leaf in self.spec.images]

    def encode(self, observations: Any) -> Tensor:
        """Encodes a tree of observations [S, L, ...] as [S, L, E]."""
        rows, length = leaves(observations)[0].shape[:2]
        parts = [self.hidden(f"{WORLD}encoder", self.numbers(observations))] if self.spec.dense_width else []
        for i, image in enumerate(self.pixels(observations) if self.spec.images else []):
            parts.append(self.convolve(f"{WORLD}encoder_images.{i}", image).view(rows, length, -1))
        return torch.cat(parts, -1)

    def convolve(self, name: str, image: Tensor) -> Tensor:
        """Runs convolutions over images [N, channels, H, W], [N, numbers]."""
        features = image - 0.5
        for i in range(NUM_CONVOLUTIONS):
            own = f"{name}.{i}"
            features = F.conv2d(features, self.views[f"{own}.weight"], stride=2, padding=1)
            features = F.silu(self.normed_image(own, features))
        return features.flatten(1)

    def normed_image(self, name: str, features: Tensor) -> Tensor:
        """Normalises feature maps [N, channels, H, W], each as a whole."""
        return F.group_norm(features, 1, self.views[f"{name}.scale"], self.views[f"{name}.shift"], NORM_EPSILON)

    def decode_images(self, features: Tensor) -> list[Tensor]:
        """Returns the images that states [..., F] are expected to show, between 0 and 1, [N, channels, H, W] each."""
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
        """Returns the distributions of latent variables, 1 % of them uniform, [..., K, C] for logits [..., K * C]."""
        spec = self.spec
        softmax: Tensor = logits.view(*logits.shape[:-1], spec.latents, spec.classes).softmax(-1)
        return softmax * (1 - UNIFORM_SHARE) + UNIFORM_SHARE / spec.classes

    def prior(self, recurrent: Tensor) -> Tensor:
        """Returns the distributions of latent variables given h [..., R] alone, [..., K, C]."""
        return self.probabilities(self.head(f"{WORLD}prior", recurrent))

    def recur(self, inputs: Tensor, recurrent: Tensor) -> Tensor:
        """Returns the next h [N, R] for products of the latent part and the action [N, width], and h [N, R].

        A GRU with layer normalisation over all gates, and an update bias towards keeping the state.
        """
        inputs = F.silu(self.normed(f"{WORLD}inputs", inputs))
        gates = self.layer(f"{WORLD}gru", torch.cat([inputs, recurrent], -1))
        reset, candidate, update = gates.chunk(3, -1)
        candidate = (reset.sigmoid() * candidate).tanh()
        return recurrent + (update - 1).sigmoid() * (candidate - recurrent)

    def observe(
        self, embedded: Tensor, actions: Tensor, starts: Tensor, state: States, noise: Tensor
    ) -> tuple[States, Tensor]:
        """Unrolls the posterior over rows of consecutive observations.

        Args:
            embedded: Encoded observations, [S, L, E].
            actions: The action before each, as the model's input, [S, L, A].
            starts: Whether an episode begins with an observation, [S, L]; states are zero there.
            state: The states before the first ones, [S, ...].
            noise: Uniform random numbers of the latents, [S, L, K].

        Returns:
            The states, [S, L, ...], with straight-through gradients of the latents, and the posterior distributions,
            [S, L, K, C].
        """
        spec = self.spec
        keeps = 1 - starts.float().unsqueeze(-1)
        inputs_weight = self.views[f"{WORLD}inputs.weight"]
        of_latent, of_action = inputs_weight[:, : spec.latent_width], inputs_weight[:, spec.latent_width :]
        posterior = f"{WORLD}posterior.hidden.0"
        posterior_weight = self.views[f"{posterior}.weight"]
        of_recurrent, of_embedded = posterior_weight[:, : spec.recurrent], posterior_weight[:, spec.recurrent :]
        # What does not depend on the state is done for all steps at once.
        acted = F.linear(actions * keeps, of_action).unbind(1)
        seen = F.linear(embedded, of_embedded).unbind(1)
        recurrent, latent = state.recurrent, state.latent
        recurrents, latents, distributions = [], [], []
        for t, (keep, draw) in enumerate(zip(keeps.unbind(1), noise.unbind(1), strict=True)):
            inputs = torch.addmm(acted[t], latent * keep, of_latent.t())
            recurrent = self.recur(inputs, recurrent * keep)
            hidden = F.silu(self.normed(posterior, torch.addmm(seen[t], recurrent, of_recurrent.t())))
            distribution = self.probabilities(self.last(f"{WORLD}posterior", hidden))
            latent = (drawn(distribution, draw) + distribution - distribution.detach()).flatten(1)
            recurrents.append(recurrent)
            latents.append(latent)
            distributions.append(distribution)
        return States(torch.stack(recurrents, 1), torch.stack(latents, 1)), torch.stack(distributions, 1)

    def imagine(self, state: States, actions: Tensor, noise: Tensor) -> States:
        """Returns the states [N, ...] after actions [N, A] in states [N, ...], with latents sampled from the prior.

        Args:
            state: The states.
            actions: The actions, as the model's input.
            noise: Uniform random numbers of the latents, [N, K].
        """
        inputs = F.linear(torch.cat([state.latent, actions], -1), self.views[f"{WORLD}inputs.weight"])
        recurrent = self.recur(inputs, state.recurrent)
        return States(recurrent, drawn(self.prior(recurrent), noise).flatten(1))


def drawn(distributions: Tensor, noise: Tensor) -> Tensor:
    """Draws a class of each distribution by inverting its cumulative sums; no gradients.

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
    """Returns images [N, *shape] between 0 and 1, [N, channels, H, W]; those of a stack are channels."""
    numbers = images.float()
    if len(image.shape) == 2:
        numbers = numbers.unsqueeze(1)
    elif image.channels_last:
        numbers = numbers.movedim(-1, -3)
    numbers = numbers.flatten(1, 2) if len(image.shape) == 4 else numbers
    return (numbers - image.low) * image.scale
