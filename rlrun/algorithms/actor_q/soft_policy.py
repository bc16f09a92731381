"""Maximum-entropy policies: stochastic actor, Q functions and temperature (torch)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import ActorQNets, actor_spec, critic_spec
from rlrun.algorithms.actor_q.networks import ActorQNetworks, drawn_critics
from rlrun.algorithms.actor_q.policy import ActorQPolicy, CriticFactory, NetworkFactories
from rlrun.algorithms.actor_q.soft_networks import ENTROPY_SHARE, ChoiceNetworks, SoftNetworks, SquashedNetworks
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import CriticsModelConfig
from rlrun.engine.nn.network_module import NetworkModule
from rlrun.engine.nn.network_spec import LogStds, NetworkSpec
from rlrun.engine.nn.observation_leaves import ObservationTree
from rlrun.engine.nn.seen_leaves import actor_leaves, critic_leaves
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.box import BoxScale, bounded_box
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.action_spaces.squashed_box import SquashedBoxActions
from rlrun.engine.policy.exploration.exploration import Exploration
from rlrun.engine.policy.exploration.sampling import SampleActions
from rlrun.engine.policy.exploration.state_dependent_noise import StateDependentNoise
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.algorithms.actor_q.sac import SACConfig

REPEATED_SAMPLING = "rlrun.engine.policy.exploration.repeated_noise:repeated_sampling"
"""Import path of the exploration by noise repetition."""

ActorFactory = Callable[[ObservationTree, CriticsModelConfig, int, LogStds | None], NetworkSpec]
"""Makes the actor's spec from (leaves, model, num_outputs, log_stds), as `actor_spec` does."""


class SoftPolicy(ActorQPolicy):
    """Policy with a stochastic actor for a bounded Box or Discrete actions, and with Q functions.

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed for the initial parameters.
        critic: Function that creates the spec of each critic.
        extra: Function that creates the specs of additional networks, by name.
        actor: Function that creates the actor's spec.
        scalars: Initial values of learned scalars besides `log_alpha`, by name, such as the logarithm of a multiplier.
        network: Function that creates a network from its spec.
        squashed: Function that creates the policy's action space (tanh-Gaussian) from the bounds of a Box.

    Attributes:
        default_target_entropy: Target entropy in nats unless the settings give one: minus the dimension of the actions
            (arXiv:1812.05905, appendix D), or 0.98 times the uniform distribution's entropy for Discrete actions
            (arXiv:1910.07207, appendix). Action masks lower the entropy of Discrete actions; see
            `ChoiceNetworks.target_entropy`.

    Raises:
        UsageError: If actions are neither a Box with finite bounds nor Discrete, or the settings enable state-dependent
            exploration where it is not supported.
    """

    config: SACConfig
    action_space: DiscreteActions | SquashedBoxActions

    def __init__(
        self,
        spaces: Spaces,
        config: SACConfig,
        seed: int,
        critic: CriticFactory = critic_spec,
        extra: NetworkFactories = MappingProxyType({}),
        actor: ActorFactory = actor_spec,
        scalars: Mapping[str, float] = MappingProxyType({}),
        network: type[NetworkModule] = NetworkModule,
        squashed: Callable[[BoxScale], SquashedBoxActions] = SquashedBoxActions,
    ) -> None:
        model = config.model
        leaves = policy_leaves(*spaces, model, normalize_observations=config.normalize_observations)
        self._soft: Callable[[ActorQNetworks, float], SoftNetworks]
        actions: DiscreteActions | SquashedBoxActions
        match spaces.action:
            case gymnasium.spaces.Discrete():
                actions = DiscreteActions(spaces.action)
                self._soft, self.num_normal, num_values = ChoiceNetworks, 0, actions.num_outputs
                self.default_target_entropy = ENTROPY_SHARE * math.log(num_values)
            case gymnasium.spaces.Box():
                actions = squashed(bounded_box(spaces.action, "a squashed policy"))
                self._soft = partial(SquashedNetworks, distribution=actions.distribution)
                self.num_normal, num_values = actions.size, 1
                self.default_target_entropy = -float(actions.size)
            case _:
                raise UsageError(
                    f"this algorithm needs a bounded Box or Discrete action space, but this env has {spaces.action}"
                )
        log_stds = LogStds(self.num_normal, model.log_std_init, state_dependent=True) if model.use_sde else None
        self.actor_spec = actor(actor_leaves(leaves, model), model, actions.num_outputs, log_stds)
        if model.use_sde and not (self.num_normal and self.actor_spec.is_dense):
            raise UsageError(
                "model.use_sde works only with continuous actions, and not with learned encoders (such as "
                "for images) or attention; set it to false"
            )
        if config.exploration == "repeated" and (model.use_sde or not self.num_normal):
            raise UsageError("exploration: repeated needs continuous actions and model.use_sde: false; leave it out")
        seen = critic_leaves(leaves, model)
        critics = [critic(seen, model, num_values, self.num_normal)] * config.num_critics
        others = {"actor": self.actor_spec, **{name: made(seen, model) for name, made in extra.items()}}
        module = ActorQNets(
            critics, others, model, seed=seed, initial_alpha=config.initial_alpha, scalars=scalars, network=network
        )
        super().__init__(config, leaves, actions, module, burn_in=config.replay.burn_in)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> SoftNetworks:
        return self._soft(super().outputs(views, batch, target_views), self.default_target_entropy)

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Samples noise for current and next actions, [S, L, D] each, and a random subset of target critics.

        Discrete actions need no noise.
        """
        columns = {}
        if self.num_normal:
            noise = generator.standard_normal((2, rows, length, self.num_normal), np.float32)
            columns = {"noise": noise[0], "next_noise": noise[1]}
        return columns | drawn_critics(generator, self.config, rows, length)

    @override
    def built_in_exploration(self) -> Exploration:
        actions, model = self.action_space, self.config.model
        if model.use_sde:
            return StateDependentNoise(actions, self.actor_spec.features, self.num_normal, model.sde_sample_freq)
        if self.config.exploration == "repeated":
            made: Exploration = load_internal(REPEATED_SAMPLING)(actions)
            return made
        return SampleActions(actions)
