"""Policies with a deterministic actor and Q functions (torch)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import ActorQNets, actor_spec, critic_spec
from rlrun.algorithms.actor_q.critic_values import CriticValues
from rlrun.algorithms.actor_q.networks import ACTOR, DeterministicNetworks, drawn_critics
from rlrun.algorithms.actor_q.policy import ActorQPolicy, CriticFactory, NetworkFactories
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.nn.seen_leaves import actor_leaves, critic_leaves
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.box import DeterministicBoxActions, bounded_box
from rlrun.engine.policy.exploration.action_noise import action_noise
from rlrun.engine.policy.exploration.exploration import Exploration

if TYPE_CHECKING:
    from rlrun.algorithms.actor_q.ddpg import DDPGConfig


class DeterministicPolicy(ActorQPolicy):
    """Policy with a deterministic actor and Q functions (critics).

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed for the initial parameters.
        critic: Function that creates the spec of each critic.
        extra: Function that creates the specs of additional networks, by name.

    Raises:
        UsageError: If the action space is not a Box with finite bounds.
    """

    config: DDPGConfig
    action_space: DeterministicBoxActions

    def __init__(
        self,
        spaces: Spaces,
        config: DDPGConfig,
        seed: int,
        critic: CriticFactory = critic_spec,
        extra: NetworkFactories = MappingProxyType({}),
    ) -> None:
        model = config.model
        leaves = policy_leaves(*spaces, model, normalize_observations=config.normalize_observations)
        actions = DeterministicBoxActions(bounded_box(spaces.action, "a deterministic policy"))
        seen = critic_leaves(leaves, model)
        critics = [critic(seen, model, 1, actions.size)] * config.num_critics
        actor = actor_spec(actor_leaves(leaves, model), model, actions.size)
        others = {"actor": actor, **{name: made(seen, model) for name, made in extra.items()}}
        super().__init__(
            config,
            leaves,
            actions,
            ActorQNets(critics, others, model, seed=seed),
            acting="" if config.records_values else ACTOR,
            networks=DeterministicNetworks,
            burn_in=config.replay.burn_in,
        )

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Samples `next_noise` [rows, steps, D] for target policy smoothing, and a random subset of target critics."""
        noise = {}
        if self.config.target_noise:
            noise["next_noise"] = generator.standard_normal((rows, length, self.action_space.size), np.float32)
        return noise | drawn_critics(generator, self.config, rows, length)

    @override
    def built_in_exploration(self) -> Exploration:
        return action_noise(self.action_space, self.config.exploration, self.config.ou_theta)

    @override
    def recording(self) -> CriticValues | None:
        """Creates the recorder of the first critic's Q values on workers; None if no initial priorities are needed."""
        return CriticValues(self.acting_side(self.critics[0])) if self.config.records_values else None
