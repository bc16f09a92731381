"""The network of Q policies: what is said of each action's return."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rlrun.nn.encoders import HIDDEN_GAIN, ObservationEncoder, initialize_orthogonally, mlp
from rlrun.nn.model_config import ModelConfig


class QNet(nn.Module):
    """Encoder, dense trunk and a head with K numbers for each of A actions.

    The dueling form has two streams behind the trunk, one for the value of the observation and one for the advantages
    of actions. The last of the hidden layers is then there twice, once in each stream.

    Attributes:
        is_dense: Whether it is made of dense layers only, so that a NumPy mirror can act.
    """

    def __init__(
        self, leaves: Any, num_actions: int, numbers_per_action: int, model: ModelConfig, *, dueling: bool, seed: int
    ) -> None:
        """Builds and initialises the layers.

        Args:
            leaves: The tree of `ObservationLeaf`.
            num_actions: A.
            numbers_per_action: K.
            model: Layers and initialisation.
            dueling: Whether there are two streams.
            seed: Seed of the first weights.
        """
        super().__init__()
        self.num_actions = num_actions
        generator = torch.Generator().manual_seed(seed)
        outputs = num_actions * numbers_per_action
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.encoder = ObservationEncoder(leaves, model)
            shared = model.hiddens[:-1] if dueling else model.hiddens
            own = model.hiddens[-1:] if dueling else ()
            self.trunk = mlp(self.encoder.width, shared, model.activation)
            features = shared[-1] if shared else self.encoder.width
            width = own[0] if own else features
            self.stream = nn.Sequential(*mlp(features, own, model.activation), nn.Linear(width, outputs))
            self.value_stream = (
                nn.Sequential(*mlp(features, own, model.activation), nn.Linear(width, numbers_per_action))
                if dueling
                else None
            )
        if model.orthogonal_init:
            initialize_orthogonally(self, HIDDEN_GAIN, generator)
            for stream in (self.stream, self.value_stream):
                if stream is not None:
                    initialize_orthogonally(stream[-1], 1.0, generator)
        self.is_dense = self.encoder.is_dense

    def forward(self, observations: Any) -> Tensor:
        """Returns numbers [N, A * K], action after action, for a tree of observations [N, ...]."""
        features = self.trunk(self.encoder(observations))
        outputs: Tensor = self.stream(features)
        if self.value_stream is None:
            return outputs
        advantages = outputs.view(len(outputs), self.num_actions, -1)
        return dueling_sum(self.value_stream(features).unsqueeze(1), advantages).flatten(1)


def dueling_sum(values: Tensor, advantages: Tensor) -> Tensor:
    """Returns values plus advantages, of which the mean over actions is taken off.

    Args:
        values: Of observations, [N, 1, K].
        advantages: Of actions there, [N, A, K].

    Source:
        Wang et al., arXiv:1511.06581, eq. 9.
    """
    return values + (advantages - advantages.mean(1, keepdim=True))
