"""A network of one's own, for algorithms with a policy and a value."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from rlrun.nn.model_config import ModelConfig


class ResidualNet(nn.Module):
    """A trunk of residual blocks with layer norm, shared by the policy and the value.

    It is named by `model: {module: my_lab.nets:ResidualNet}`. `model.hiddens` says how wide the blocks are, which all
    have the width of the first, and how many there are.

    Args:
        observation_space: What the env shows, here a Box of one dimension.
        num_outputs: Numbers that the policy puts out for an observation.
        model: The section `model` of the settings.
    """

    def __init__(self, observation_space: Any, num_outputs: int, model: ModelConfig) -> None:
        super().__init__()
        width = model.dense_widths[0]
        self.encoder = nn.Linear(observation_space.shape[0], width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU()) for _ in model.dense_widths
        )
        self.policy = nn.Linear(width, num_outputs)
        self.value = nn.Linear(width, 1)
        nn.init.normal_(self.policy.weight, std=0.01)  # the first actions depend on nothing but chance

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Returns outputs [N, num_outputs] and values [N] for observations [N, D]."""
        features: Tensor = self.encoder(observations)
        for block in self.blocks:
            features = features + block(features)
        return self.policy(features), self.value(features).squeeze(-1)
