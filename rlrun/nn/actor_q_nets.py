"""The networks of an actor and of the Q functions (its critics) that judge it, each with layers of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rlrun.errors import UsageError
from rlrun.nn.encoders import HIDDEN_GAIN, ObservationEncoder, initialize_orthogonally, mlp
from rlrun.nn.model_config import ModelConfig
from rlrun.nn.state_dependent import StateDependentStd


class EncodedNet(nn.Module):
    """Encoder, dense trunk and head, with further inputs beside what the encoder makes of the observation.

    Attributes:
        is_dense: Whether it is made of dense layers only, so that a NumPy mirror can act.
        std: Gives log standard deviations, which are put out behind the head's outputs; None if the head gives all.
    """

    def __init__(
        self, leaves: Any, further_inputs: int, num_outputs: int, model: ModelConfig, num_state_dependent: int = 0
    ) -> None:
        """Builds the layers.

        Args:
            leaves: The tree of `ObservationLeaf`.
            further_inputs: Numbers that come with an observation: an action's, or none.
            num_outputs: K.
            model: Layers.
            num_state_dependent: How many of the outputs are log standard deviations of state-dependent exploration.
        """
        super().__init__()
        self.encoder = ObservationEncoder(leaves, model)
        width = self.encoder.width + further_inputs
        self.trunk = mlp(width, model.hiddens, model.activation)
        self.features = model.hiddens[-1] if model.hiddens else width
        self.head = nn.Linear(self.features, num_outputs - num_state_dependent)
        self.std = (
            StateDependentStd(self.features, num_state_dependent, model.log_std_init) if num_state_dependent else None
        )
        self.is_dense = self.encoder.is_dense

    def forward(self, observations: Any, further: Tensor | None = None) -> Tensor:
        """Returns outputs [N, K] for a tree of observations [N, ...] and what comes with them, [N, further_inputs]."""
        features = self.encoder(observations)
        if further is not None:
            features = torch.cat([features, further], -1)
        features = self.trunk(features)
        outputs: Tensor = self.head(features)
        return outputs if self.std is None else torch.cat([outputs, self.std(features)], -1)


class ActorQNets(nn.Module):
    """An actor and its critics, which share nothing; the critics' parameters lie side by side, and so do the actor's.

    Attributes:
        critics: The critics.
        actor: The actor.
        log_alpha: Logarithm of the temperature, [1], if the actor is to keep some entropy.
    """

    def __init__(
        self,
        leaves: Any,
        *,
        actor_outputs: int,
        critic_inputs: int,
        critic_outputs: int,
        num_critics: int,
        model: ModelConfig,
        seed: int,
        initial_alpha: float | None = None,
        num_state_dependent: int = 0,
    ) -> None:
        """Builds and initialises the layers.

        Args:
            leaves: The tree of `ObservationLeaf`.
            actor_outputs: Numbers that the actor puts out.
            critic_inputs: Numbers of an action that critics take; 0 if they put out the values of all actions.
            critic_outputs: Numbers that a critic puts out.
            num_critics: How many critics there are.
            model: Layers and initialisation.
            seed: Seed of the first weights.
            initial_alpha: The first temperature; None for no temperature.
            num_state_dependent: How many of the actor's outputs are log standard deviations of state-dependent
                exploration.

        Raises:
            UsageError: If the model is a network of one's own.
        """
        if model.module is not None:
            raise UsageError("model.module: actors under critics of actions are built by rlrun; leave it null")
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.critics = nn.ModuleList(
                EncodedNet(leaves, critic_inputs, critic_outputs, model) for _ in range(num_critics)
            )
            self.actor = EncodedNet(leaves, 0, actor_outputs, model, num_state_dependent)
        if model.orthogonal_init:
            initialize_orthogonally(self, HIDDEN_GAIN, generator)
            initialize_orthogonally(self.actor.head, 0.01, generator)
            for critic in self.critics:
                assert isinstance(critic, EncodedNet)
                initialize_orthogonally(critic.head, 1.0, generator)
        self.log_alpha = None if initial_alpha is None else nn.Parameter(torch.tensor([initial_alpha]).log())
