"""Deterministic policies: one action for an observation, and critics of it (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rlrun.data.sample_batch import SampleBatch
from rlrun.nn.actor_q_nets import ActorQNets
from rlrun.nn.model_config import ModelConfig
from rlrun.nn.observation_leaves import observation_leaves
from rlrun.policy.action_space import bounded_box
from rlrun.policy.actor_q_networks import ActorQNetworks, acting_side
from rlrun.policy.critics import judging_side
from rlrun.policy.deterministic_behavior import DeterministicActions, DeterministicBehavior, NoiseKind
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy


@dataclass(frozen=True)
class DeterministicNetworks(ActorQNetworks):
    """An actor whose outputs become actions between -1 and 1, and critics of observation and action."""

    def values(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns what the critics say of actions [S, L, D], [C, S, L]."""
        return self.critic_outputs(observations, actions).squeeze(-1)

    def target_values(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns what the target critics say of them, [C, S, L]."""
        return self.target_critic_outputs(observations, actions).squeeze(-1)

    def first_values(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns what the first critic alone says of them, [S, L]."""
        return self.first_critic_outputs(observations, actions).squeeze(-1)

    def actions(self, observations: Any) -> Tensor:
        """Returns the actor's actions in observations [S, L, ...], [S, L, D]."""
        return self.actor_outputs(observations).tanh()

    def target_actions(self, observations: Any) -> Tensor:
        """Returns the target actor's actions, [S, L, D]."""
        return self.target_actor_outputs(observations).tanh()


class DeterministicPolicy(Policy):
    """An actor that says what to do, and critics that say what an action is worth.

    Attributes:
        records_values: Whether fragments tell what actions were worth.
    """

    records_values: bool = False

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: ModelConfig,
        *,
        normalize_observations: bool,
        seed: int,
        num_critics: int,
        uniform_steps: int,
        noise: NoiseKind,
        theta: float,
        draws_noise: bool,
    ) -> None:
        """Builds the networks for the spaces.

        Args:
            observation_space: What the env shows.
            action_space: What it takes.
            model: The networks' layers.
            normalize_observations: Whether observations are shifted and scaled.
            seed: Seed of the first weights.
            num_critics: How many critics there are.
            uniform_steps: Env steps until which actions are drawn uniformly.
            noise: Which noise actions are explored with.
            theta: How much of wandering noise a step takes back.
            draws_noise: Whether minibatches carry standard normal noise, `next_noise` [S, L, D], for the target's
                actions.

        Raises:
            UsageError: If actions are no Box with finite bounds.
        """
        self.leaves = observation_leaves(observation_space)
        self.box = bounded_box(action_space, "a deterministic policy")
        self.normalize_observations = normalize_observations
        self.uniform_steps = uniform_steps
        self.noise: NoiseKind = noise
        self.theta = theta
        self.draws_noise = draws_noise
        self.net = ActorQNets(
            self.leaves,
            actor_outputs=self.box.size,
            critic_inputs=self.box.size,
            critic_outputs=1,
            num_critics=num_critics,
            model=model,
            seed=seed,
        )
        self.module = self.net
        self.parameters = FlatParameters(self.net)

    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> DeterministicNetworks:
        """Returns the networks."""
        return DeterministicNetworks(self.net, views, views if target_views is None else target_views)

    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Returns noise for the target's actions, if that is asked for."""
        if not self.draws_noise:
            return {}
        return {"next_noise": generator.standard_normal((rows, length, self.box.size), np.float32)}

    def behavior(self) -> DeterministicBehavior:
        """Returns the acting side, without weights."""
        return DeterministicBehavior(
            acting_side(self.net, self.parameters, self.leaves),
            DeterministicActions(self.box),
            self.leaves,
            normalize_observations=self.normalize_observations,
            uniform_steps=self.uniform_steps,
            kind=self.noise,
            theta=self.theta,
            critic=judging_side(self.net.critics, self.parameters, self.leaves) if self.records_values else None,
        )
