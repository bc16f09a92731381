"""Deterministic policies with Q functions (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import ActorQNets, actor_spec, critic_spec
from rlrun.algorithms.actor_q.critic_values import CriticValues
from rlrun.algorithms.actor_q.networks import ACTOR, ActorQNetworks, networks_of
from rlrun.data.sample_batch import SampleBatch
from rlrun.nn.model_config import ModelConfig
from rlrun.policy.acting_network import acting_network
from rlrun.policy.action_masks import policy_leaves
from rlrun.policy.action_spaces.box_scale import bounded_box
from rlrun.policy.action_spaces.deterministic_box import DeterministicBoxActions
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.exploration.action_noise import ActionNoise, NoiseKind
from rlrun.policy.exploration.sampling import UniformUntil
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy


@dataclass(frozen=True)
class DeterministicNetworks:
    """Deterministic actor with actions in [-1, 1], and its Q functions.

    Attributes:
        networks: The underlying networks.
    """

    networks: ActorQNetworks

    def values(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns the critics' values of actions [S, L, D], [C, S, L]."""
        return self.networks.critic_outputs(observations, actions).squeeze(-1)

    def target_values(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns the target critics' values, [C, S, L]."""
        return self.networks.target_critic_outputs(observations, actions).squeeze(-1)

    def first_values(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns the first critic's values, [S, L]."""
        return self.networks.first_critic_outputs(observations, actions).squeeze(-1)

    def actions(self, observations: Any) -> Tensor:
        """Returns the actor's actions in observations [S, L, ...], [S, L, D]."""
        return self.networks.actor_outputs(observations).tanh()

    def target_actions(self, observations: Any) -> Tensor:
        """Returns the target actor's actions, [S, L, D]."""
        return self.networks.target_actor_outputs(observations).tanh()


class DeterministicPolicy(Policy):
    """Policy of a deterministic actor and its Q functions (critics).

    Args:
        observation_space: What the env shows.
        action_space: What it takes.
        model: The networks' layers.
        normalize_observations: Whether observations are shifted and scaled.
        seed: Seed of the first weights.
        num_critics: How many critics there are.
        uniform_steps: Env steps until which actions are drawn uniformly.
        noise: Which noise actions are explored with.
        theta: How much of correlated noise a step takes back.
        draws_noise: Whether minibatches carry standard normal noise, `next_noise` [S, L, D], for the target's actions.
        records_values: Whether fragments tell what actions were worth.
        burn_in: Rows of a sequence that only bring up recurrent states, with a core.

    Raises:
        UsageError: If actions are no Box with finite bounds.
    """

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
        records_values: bool = False,
        burn_in: int = 0,
    ) -> None:
        self.leaves = policy_leaves(
            observation_space, action_space, model, normalize_observations=normalize_observations
        )
        self.action_space = DeterministicBoxActions(bounded_box(action_space, "a deterministic policy"))
        self.normalize_observations = normalize_observations
        self.draws_noise = draws_noise
        self.records_values = records_values
        self.uniform_steps = uniform_steps
        self.noise: NoiseKind = noise
        self.theta = theta
        self.burn_in = None if model.core is None else burn_in
        size = self.action_space.size
        self.module = ActorQNets(
            critic_spec(self.leaves, model, 1, size),
            num_critics,
            actor_spec(self.leaves, model, size),
            model,
            seed=seed,
        )
        self.parameters = FlatParameters(self.module)
        self.critics, self.actor = networks_of(self.module)

    @property
    @override
    def acting_range(self) -> tuple[int, int]:
        """The actor's parameters; all where fragments record Q values."""
        return self.parameters.range_under("" if self.records_values else ACTOR)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> DeterministicNetworks:
        targets = views if target_views is None else target_views
        return DeterministicNetworks(ActorQNetworks(self.critics, self.actor, views, targets, self.burn_in))

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Returns noise for target policy smoothing, if `draws_noise`."""
        if not self.draws_noise:
            return {}
        return {"next_noise": generator.standard_normal((rows, length, self.action_space.size), np.float32)}

    @override
    def behavior(self) -> BehaviorPolicy:
        (start, _), actions = self.acting_range, self.action_space
        assert self.actor is not None
        critic = acting_network(self.critics[0], self.parameters, start=start) if self.records_values else None
        return BehaviorPolicy(
            acting_network(self.actor, self.parameters, start=start),
            actions,
            UniformUntil(ActionNoise(actions, self.noise, self.theta), actions, self.uniform_steps),
            self.leaves,
            normalize_observations=self.normalize_observations,
            recording=None if critic is None else CriticValues(critic),
        )
