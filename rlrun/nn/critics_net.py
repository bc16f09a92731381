"""Critics of observation and action without an actor."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from rlrun.nn.actor_q_nets import EncodedNet
from rlrun.nn.encoders import HIDDEN_GAIN, initialize_orthogonally
from rlrun.nn.model_config import ModelConfig


class CriticsNet(nn.Module):
    """Several critics, which share nothing.

    Attributes:
        critics: The critics.
    """

    def __init__(self, leaves: Any, action_size: int, num_critics: int, model: ModelConfig, seed: int) -> None:
        """Builds and initialises the layers.

        Args:
            leaves: The tree of `ObservationLeaf`.
            action_size: Numbers of an action.
            num_critics: How many critics there are.
            model: Layers and initialisation.
            seed: Seed of the first weights.
        """
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.critics = nn.ModuleList(EncodedNet(leaves, action_size, 1, model) for _ in range(num_critics))
        if model.orthogonal_init:
            initialize_orthogonally(self, HIDDEN_GAIN, generator)
            for critic in self.critics:
                assert isinstance(critic, EncodedNet)
                initialize_orthogonally(critic.head, 1.0, generator)
