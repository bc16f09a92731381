"""The network of Q policies: what each action is worth."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rlrun.nn.encoders import HIDDEN_GAIN, ObservationEncoder, initialize_orthogonally, mlp
from rlrun.nn.model_config import ModelConfig


class QNet(nn.Module):
    """Encoder, dense trunk and a head with the value of every action.

    Attributes:
        is_dense: Whether it is made of dense layers only, so that a NumPy mirror can act.
    """

    def __init__(self, leaves: Any, num_actions: int, model: ModelConfig, seed: int) -> None:
        """Builds and initialises the layers.

        Args:
            leaves: The tree of `ObservationLeaf`.
            num_actions: A.
            model: Layers and initialisation.
            seed: Seed of the first weights.
        """
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.encoder = ObservationEncoder(leaves, model)
            self.trunk = mlp(self.encoder.width, model.hiddens, model.activation)
            features = model.hiddens[-1] if model.hiddens else self.encoder.width
            self.head = nn.Linear(features, num_actions)
        if model.orthogonal_init:
            initialize_orthogonally(self, HIDDEN_GAIN, generator)
            initialize_orthogonally(self.head, 1.0, generator)
        self.is_dense = self.encoder.is_dense

    def forward(self, observations: Any) -> Tensor:
        """Returns values [N, A] for a tree of observations [N, ...]."""
        values: Tensor = self.head(self.trunk(self.encoder(observations)))
        return values
