"""The network of actor-critic policies: one head describes the action distribution, the other estimates the value."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rlrun.errors import UsageError
from rlrun.nn.encoders import HIDDEN_GAIN, ObservationEncoder, initialize_orthogonally, mlp
from rlrun.nn.model_config import ModelConfig
from rlrun.nn.state_dependent import StateDependentStd


class PolicyValueNet(nn.Module):
    """Encoder, dense trunk and head for the policy, and the same for the value or only a head of its own.

    Attributes:
        is_dense: Whether it is made of dense layers only, so that a NumPy mirror can act.
    """

    def __init__(self, leaves: Any, num_outputs: int, free_log_stds: int, model: ModelConfig, seed: int) -> None:
        """Builds and initialises the layers.

        Args:
            leaves: The tree of `ObservationLeaf`.
            num_outputs: K, the numbers that describe one action distribution.
            free_log_stds: How many of them are log standard deviations: parameters that do not depend on the
                observation or, with the model's `use_sde`, a function of the last features.
            model: Layers and initialisation.
            seed: Seed of the first weights.

        Raises:
            UsageError: If images are to be explored by state-dependent noise.
        """
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.policy_encoder = ObservationEncoder(leaves, model)
            self.policy_trunk = mlp(self.policy_encoder.width, model.hiddens, model.activation)
            features = model.hiddens[-1] if model.hiddens else self.policy_encoder.width
            self.policy_head = nn.Linear(features, num_outputs - free_log_stds)
            self.value_encoder = None if model.shared_value else ObservationEncoder(leaves, model)
            self.value_trunk = (
                None if model.shared_value else mlp(self.policy_encoder.width, model.hiddens, model.activation)
            )
            self.value_head = nn.Linear(features, 1)
        self.log_stds, self.std = None, None
        if free_log_stds and model.use_sde:
            if not self.policy_encoder.is_dense:
                raise UsageError("model.use_sde: noise as a function of images is not supported; leave it out")
            self.std = StateDependentStd(features, free_log_stds, model.log_std_init)
        elif free_log_stds:
            self.log_stds = nn.Parameter(torch.full((free_log_stds,), model.log_std_init))
        if model.orthogonal_init:
            initialize_orthogonally(self, HIDDEN_GAIN, generator)
            initialize_orthogonally(self.policy_head, 0.01, generator)
            initialize_orthogonally(self.value_head, 1.0, generator)
        self.is_dense = self.policy_encoder.is_dense

    def forward(self, observations: Any) -> tuple[Tensor, Tensor]:
        """Returns outputs [N, K] and values [N] for a tree of observations [N, ...]."""
        encoded = self.policy_encoder(observations)
        features = self.policy_trunk(encoded)
        outputs = self.policy_head(features)
        if self.log_stds is not None:
            outputs = torch.cat([outputs, self.log_stds.expand(len(outputs), -1)], -1)
        if self.std is not None:
            outputs = torch.cat([outputs, self.std(features)], -1)
        if self.value_trunk is not None and self.value_encoder is not None:
            features = self.value_trunk(self.value_encoder(observations))
        return outputs, self.value_head(features).squeeze(-1)
