"""Policies by maximisation of Q functions, without an actor (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import ActorQNets, critic_spec
from rlrun.algorithms.actor_q.networks import CRITICS, ActorQNetworks, networks_of
from rlrun.algorithms.qtopt.cross_entropy_method import greedy_actions
from rlrun.algorithms.qtopt.cross_entropy_search import CrossEntropySearch
from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.nn.model_config import ModelConfig
from rlrun.policy.acting_network import acting_network
from rlrun.policy.action_masks import policy_leaves
from rlrun.policy.action_spaces.box_scale import bounded_box
from rlrun.policy.action_spaces.deterministic_box import DeterministicBoxActions
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.exploration.action_noise import ActionNoise
from rlrun.policy.exploration.sampling import UniformUntil
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy

NOISE = "action_noise"
"""Column of a minibatch with the noise of the samples, [S, 1, iterations, samples, D]."""


@dataclass(frozen=True)
class CriticsNetworks:
    """Q networks and their targets, as losses call them.

    Attributes:
        networks: The underlying networks.
        num_elites: Samples that the next mean and standard deviation are fitted to.
    """

    networks: ActorQNetworks
    num_elites: int

    def values(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns the critics' values of actions [S, L, D] in observations [S, L, ...], [C, S, L]."""
        return self.networks.critic_outputs(observations, actions).squeeze(-1)

    def target_values(self, observations: Any, actions: Tensor) -> Tensor:
        """Returns the target critics' values, [C, S, L]."""
        return self.networks.target_critic_outputs(observations, actions).squeeze(-1)

    def target_greedy_actions(self, observations: Any, noise: Tensor) -> Tensor:
        """Returns the actions that maximise the first target critic.

        Args:
            observations: A tree of [S, 1, ...].
            noise: Standard normal, [S, 1, iterations, samples, D].

        Returns:
            Actions between -1 and 1, [S, 1, D].
        """
        samples = noise.shape[3]
        repeated = map_tree(lambda leaf: leaf.expand(-1, samples, *leaf.shape[2:]), observations)

        def values_of(actions: Tensor) -> Tensor:
            return self.networks.first_target_critic_outputs(repeated, actions).squeeze(-1)

        with torch.no_grad():
            found: Tensor = greedy_actions(values_of, noise[:, 0], self.num_elites)
        return found[:, None]


class CriticsPolicy(Policy):
    """Policy that maximises Q functions over continuous actions by the cross-entropy method.

    Args:
        observation_space: What the env shows.
        action_space: What it takes.
        model: The critics' layers.
        normalize_observations: Whether observations are shifted and scaled.
        seed: Seed of the first weights.
        num_critics: How many critics there are.
        iterations: Times that samples are drawn when an action is looked for.
        samples: How many.
        elites: How many of them give the next mean and standard deviation.
        uniform_steps: Env steps until which actions are drawn uniformly.

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
        iterations: int,
        samples: int,
        elites: int,
        uniform_steps: int,
    ) -> None:
        self.leaves = policy_leaves(
            observation_space, action_space, model, normalize_observations=normalize_observations
        )
        self.action_space = DeterministicBoxActions(bounded_box(action_space, "a policy of critics"), squashes=False)
        self.normalize_observations = normalize_observations
        self.iterations = iterations
        self.samples = samples
        self.elites = elites
        self.uniform_steps = uniform_steps
        self.module = ActorQNets(
            critic_spec(self.leaves, model, 1, self.action_space.size), num_critics, None, model, seed=seed
        )
        self.parameters = FlatParameters(self.module)
        self.critics, _ = networks_of(self.module)

    @property
    @override
    def acting_range(self) -> tuple[int, int]:
        """The first critic's parameters."""
        return self.parameters.range_under(f"{CRITICS}0.")

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> CriticsNetworks:
        targets = views if target_views is None else target_views
        return CriticsNetworks(ActorQNetworks(self.critics, None, views, targets), self.elites)

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Returns the noise of the samples that maximise the target critic."""
        shape = (rows, length, self.iterations, self.samples, self.action_space.size)
        return {NOISE: generator.standard_normal(shape, np.float32)}

    @override
    def behavior(self) -> BehaviorPolicy:
        start, _ = self.acting_range
        search = CrossEntropySearch(
            acting_network(self.critics[0], self.parameters, start=start),
            self.action_space.size,
            iterations=self.iterations,
            samples=self.samples,
            elites=self.elites,
        )
        return BehaviorPolicy(
            search,
            self.action_space,
            UniformUntil(ActionNoise(self.action_space), self.action_space, self.uniform_steps),
            self.leaves,
            normalize_observations=self.normalize_observations,
        )
