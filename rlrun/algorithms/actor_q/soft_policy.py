"""Maximum-entropy policies: stochastic actor, twin Q functions and temperature (torch)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import ActorQNets, actor_spec, critic_spec
from rlrun.algorithms.actor_q.networks import ACTOR, ActorQNetworks, networks_of
from rlrun.algorithms.actor_q.soft_networks import ENTROPY_SHARE, ChoiceNetworks, SoftNetworks, SquashedNetworks
from rlrun.data.sample_batch import SampleBatch
from rlrun.envs.spaces import Spaces
from rlrun.errors import UsageError
from rlrun.nn.network_spec import LogStds
from rlrun.policy.acting_network import acting_network
from rlrun.policy.action_masks import policy_leaves
from rlrun.policy.action_spaces.box_scale import bounded_box
from rlrun.policy.action_spaces.discrete import DiscreteActions
from rlrun.policy.action_spaces.squashed_box import SquashedBoxActions
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.exploration.exploration import Exploration
from rlrun.policy.exploration.own_exploration import own_exploration
from rlrun.policy.exploration.sampling import SampleActions, StateDependentNoise, UniformUntil
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy

if TYPE_CHECKING:
    from rlrun.algorithms.actor_q.sac import SACConfig

NUM_CRITICS = 2


class SoftPolicy(Policy):
    """Policy of a stochastic actor over a bounded Box or Discrete actions, with twin Q functions.

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed of the first parameters.

    Attributes:
        default_target_entropy: Target entropy in nats if the settings have none: minus the number of continuous actions
            (arXiv:1812.05905, appendix D), or 0.98 of the uniform distribution's entropy for Discrete actions
            (arXiv:1910.07207, appendix). Action masks lower the latter, see `ChoiceNetworks.target_entropy`.

    Raises:
        UsageError: If actions are neither a Box with finite bounds nor Discrete, or state-dependent exploration is set
            and not supported.
    """

    def __init__(self, spaces: Spaces, config: SACConfig, seed: int) -> None:
        model, action_space = config.model, spaces.action
        self.leaves = policy_leaves(*spaces, model, normalize_observations=config.normalize_observations)
        self.normalize_observations = config.normalize_observations
        self.exploration = config.exploration
        self.uniform_steps = config.learning_starts
        self.model = model
        self.burn_in = None if model.core is None else config.replay.burn_in
        self.networks: type[SoftNetworks]
        self.action_space: DiscreteActions | SquashedBoxActions
        log_stds = None
        if isinstance(action_space, gymnasium.spaces.Discrete):
            self.networks, self.num_normal = ChoiceNetworks, 0
            self.action_space = DiscreteActions(action_space)
            critic = critic_spec(self.leaves, model, self.action_space.num_outputs, 0)
            self.default_target_entropy = ENTROPY_SHARE * math.log(self.action_space.num_outputs)
        elif isinstance(action_space, gymnasium.spaces.Box):
            self.action_space = SquashedBoxActions(bounded_box(action_space, "a squashed policy"))
            self.networks, self.num_normal = SquashedNetworks, self.action_space.size
            critic = critic_spec(self.leaves, model, 1, self.num_normal)
            self.default_target_entropy = -float(self.num_normal)
            if model.use_sde:
                log_stds = LogStds(self.num_normal, model.log_std_init, state_dependent=True)
        else:
            raise UsageError(f"a soft policy acts in a bounded Box or in Discrete, not in {action_space}")
        self.actor_spec = actor_spec(self.leaves, model, self.action_space.num_outputs, log_stds)
        if model.use_sde and not (self.num_normal and self.actor_spec.is_dense):
            raise UsageError(
                "model.use_sde: only continuous actions are explored that way, not as a function of encoders with "
                "parameters, as of images, or of attention"
            )
        alpha = config.initial_alpha
        self.module = ActorQNets(critic, NUM_CRITICS, self.actor_spec, model, seed=seed, initial_alpha=alpha)
        self.parameters = FlatParameters(self.module)
        self.critics, self.actor = networks_of(self.module)

    @property
    @override
    def acting_range(self) -> tuple[int, int]:
        """Slice of the actor's parameters, as (start, size)."""
        return self.parameters.range_under(ACTOR)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> SoftNetworks:
        targets = views if target_views is None else target_views
        networks = ActorQNetworks(self.critics, self.actor, views, targets, self.burn_in)
        return self.networks(networks, self.default_target_entropy)

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Samples normal noise of actions in current and next observations, [S, L, D] each; none if Discrete."""
        if not self.num_normal:
            return {}
        noise = generator.standard_normal((2, rows, length, self.num_normal), np.float32)
        return {"noise": noise[0], "next_noise": noise[1]}

    @override
    def behavior(self) -> BehaviorPolicy:
        (start, _), actions = self.acting_range, self.action_space
        assert self.actor is not None
        return BehaviorPolicy(
            acting_network(self.actor, self.parameters, start=start),
            actions,
            UniformUntil(self._exploration(), actions, self.uniform_steps),
            self.leaves,
            normalize_observations=self.normalize_observations,
        )

    def _exploration(self) -> Exploration:
        if self.exploration != "sampled":
            return own_exploration(self.exploration, self.action_space)
        if self.model.use_sde:
            every = self.model.sde_sample_freq
            return StateDependentNoise(self.action_space, self.actor_spec.features, self.num_normal, every)
        return SampleActions(self.action_space)
