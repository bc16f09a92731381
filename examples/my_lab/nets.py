"""A custom network with a policy and a value, and a custom encoder of images."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from rlrun.plugin import ModelConfig


class ResidualNet(nn.Module):
    """A trunk of residual blocks with layer norm, shared by the policy and the value.

    `model: {module: my_lab.nets:ResidualNet}` selects it. `model.hiddens` has an entry
    for each block; its first is the width of all of them.

    Args:
        observation_space: What the env shows, here a Box of one dimension.
        num_outputs: Number of outputs of the policy for an observation.
        model: The section `model` of the settings.
    """

    def __init__(
        self, observation_space: Any, num_outputs: int, model: ModelConfig
    ) -> None:
        super().__init__()
        width = model.dense_widths[0]
        self.encoder = nn.Linear(observation_space.shape[0], width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU())
            for _ in model.dense_widths
        )
        self.policy = nn.Linear(width, num_outputs)
        self.value = nn.Linear(width, 1)
        nn.init.normal_(self.policy.weight, std=0.01)  # for almost uniform actions

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Returns outputs [N, num_outputs] and values [N] for observations [N, D]."""
        features: Tensor = self.encoder(observations)
        for block in self.blocks:
            features = features + block(features)
        return self.policy(features), self.value(features).squeeze(-1)


class Camera(nn.Module):
    """Convolutions over an image of any size, whose features are pooled to 4 x 4.

    `model: {encoders: {camera: my_lab.nets:Camera}}` selects it.

    Args:
        space: Space of the images, a Box [height, width, channels] of bytes.
    """

    def __init__(self, space: Any) -> None:
        super().__init__()
        channels = space.shape[-1]
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 16, 5, stride=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Linear(256, 64),
            nn.ReLU(),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Returns features [N, 64] of images [N, height, width, channels] of bytes."""
        features: Tensor = self.layers(images.movedim(-1, 1) / 255)
        return features
