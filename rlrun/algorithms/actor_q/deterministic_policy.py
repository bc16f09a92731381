"""Deterministic policies with Q functions (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import ActorQNets, actor_spec, critic_spec
from rlrun.algorithms.actor_q.critic_values import CriticValues
from rlrun.algorithms.actor_q.networks import ACTOR, DeterministicNetworks, networks_of
from rlrun.data.sample_batch import SampleBatch
from rlrun.envs.spaces import Spaces
from rlrun.policy.acting_network import acting_network
from rlrun.policy.action_masks import policy_leaves
from rlrun.policy.action_spaces.box_scale import bounded_box
from rlrun.policy.action_spaces.deterministic_box import DeterministicBoxActions
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.exploration.action_noise import action_noise
from rlrun.policy.exploration.sampling import UniformUntil
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy

if TYPE_CHECKING:
    from rlrun.algorithms.actor_q.ddpg import DDPGConfig


class DeterministicPolicy(Policy):
    """Policy of a deterministic actor and its Q functions (critics).

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed of the first parameters.

    Raises:
        UsageError: If actions are no Box with finite bounds.
    """

    def __init__(self, spaces: Spaces, config: DDPGConfig, seed: int) -> None:
        self.leaves = policy_leaves(*spaces, config.model, normalize_observations=config.normalize_observations)
        self.action_space = DeterministicBoxActions(bounded_box(spaces.action, "a deterministic policy"))
        self.config = config
        model = config.model
        size = self.action_space.size
        self.module = ActorQNets(
            critic_spec(self.leaves, model, 1, size),
            config.num_critics,
            actor_spec(self.leaves, model, size),
            model,
            seed=seed,
        )
        self.parameters = FlatParameters(self.module)
        self.critics, self.actor = networks_of(self.module)

    @property
    @override
    def acting_range(self) -> tuple[int, int]:
        """Slice of the acting parameters, as (start, size): the actor, or all networks if Q values are recorded."""
        return self.parameters.range_under("" if self.config.records_values else ACTOR)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> DeterministicNetworks:
        targets = views if target_views is None else target_views
        burn_in = None if self.config.model.core is None else self.config.replay.burn_in
        return DeterministicNetworks(self.critics, self.actor, views, targets, burn_in)

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Samples the noise of target policy smoothing, `next_noise` [S, L, D]; no columns if it is unused."""
        if not self.config.draws_noise:
            return {}
        return {"next_noise": generator.standard_normal((rows, length, self.action_space.size), np.float32)}

    @override
    def behavior(self) -> BehaviorPolicy:
        (start, _), actions = self.acting_range, self.action_space
        assert self.actor is not None
        critic = acting_network(self.critics[0], self.parameters, start=start) if self.config.records_values else None
        explored = action_noise(self.config.exploration, self.config.ou_theta, actions)
        return BehaviorPolicy(
            acting_network(self.actor, self.parameters, start=start),
            actions,
            UniformUntil(explored, actions, self.config.learning_starts),
            self.leaves,
            normalize_observations=self.config.normalize_observations,
            recording=None if critic is None else CriticValues(critic),
        )
