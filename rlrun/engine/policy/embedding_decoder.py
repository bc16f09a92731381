"""Decoder that scores each action by the dot product of the action's and the observation's embedding (torch)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.nn.encoders import ACTIVATIONS, HIDDEN_GAIN, initialize_orthogonally
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.parameter_slot import ParameterSlot
from rlrun.engine.policy.action_embeddings import EmbeddedOutputs
from rlrun.engine.policy.decoder import Decoder


class EmbeddedActions(Decoder):
    """Torch module that scores each action by the scaled dot product of its embedding and the observation's embedding.

    The head `outputs` of the network is the observation's embedding.

    Args:
        key: Observation entry with F features of each of K actions, [S, L, K, F] in S sequences of L steps.
        features: F, number of features per action.
        model: Settings with the activation and the initialization.
        width: D, width of the embeddings and of the hidden layer.
        seed: Seed of the initial parameters.
    """

    heads = ("outputs",)

    def __init__(self, key: str, features: int, model: ModelConfig, width: int, *, seed: int) -> None:
        super().__init__()
        self.key = key
        self.model = model
        self.width = width
        self.hidden = nn.Linear(features, width)
        self.embedding = nn.Linear(width, width)
        self.activation = ACTIVATIONS[model.activation]()
        if model.orthogonal_init:
            initialize_orthogonally(self, HIDDEN_GAIN, torch.Generator().manual_seed(seed))

    @override
    def forward(self, heads: Mapping[str, Tensor], columns: Mapping[str, Any]) -> Tensor:
        """Returns logits or Q values of the K actions that each observation lists, [S, L, K] for S sequences."""
        embedded = self.embedding(self.activation(self.hidden(columns["obs"][self.key].float())))
        fit: Tensor = (embedded @ heads["outputs"].unsqueeze(-1)).squeeze(-1) / math.sqrt(self.width)
        return fit

    @override
    def acting(self, network: ActingNetwork, slots: Mapping[str, ParameterSlot]) -> ActingNetwork:
        """Creates the NumPy network that scores actions by their embeddings; its weights are loaded later."""
        return EmbeddedOutputs(network, self.key, self.model.activation, slots)
