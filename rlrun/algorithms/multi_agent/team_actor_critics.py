"""Decentralized actors and centralized critics of a team's members (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import ActorQNets, actor_spec, critic_spec
from rlrun.algorithms.actor_q.networks import torch_networks
from rlrun.algorithms.actor_q.policy import ActorQPolicy
from rlrun.algorithms.multi_agent.member_actions import GumbelSoftmaxActions, MemberActions, SquashedActions
from rlrun.algorithms.multi_agent.member_networks import MemberNetworks
from rlrun.algorithms.multi_agent.team_networks import TeamActorCriticsNetworks
from rlrun.engine.data.sample_batch import ACTS, SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.nn.observation_leaves import encoded_leaves
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.box import DeterministicBoxActions, bounded_box
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.exploration.action_noise import action_noise
from rlrun.engine.policy.exploration.exploration import Exploration
from rlrun.engine.policy.exploration.sampling import SampleActions
from rlrun.engine.worlds.world_view import WorldView

if TYPE_CHECKING:
    from rlrun.algorithms.multi_agent.maddpg import MADDPGConfig

ACTORS = "actors."


class TeamActorCriticsPolicy(ActorQPolicy):
    """Policy of MADDPG: a decentralized actor and a centralized critic per team member.

    Member k is agent k of the multi-agent env. With parameter sharing, all members use the same actor.

    Args:
        spaces: Observation and action space of each member.
        config: Settings of MADDPG.
        seed: Seed for the initial parameters.
        world: Description of the multi-agent env, which has K agents.

    Raises:
        UsageError: If actions are neither Discrete nor a Box with finite bounds.
    """

    world_columns = (ACTS,)
    config: MADDPGConfig
    action_space: DiscreteActions | DeterministicBoxActions

    def __init__(self, spaces: Spaces, config: MADDPGConfig, seed: int, world: WorldView) -> None:
        self.actions: MemberActions
        space: DiscreteActions | DeterministicBoxActions
        match spaces.action:
            case gymnasium.spaces.Discrete():
                space = DiscreteActions(spaces.action)
                self.actions = GumbelSoftmaxActions(space.num_outputs)
            case gymnasium.spaces.Box():
                space = DeterministicBoxActions(bounded_box(spaces.action, "a deterministic policy"))
                self.actions = SquashedActions(space.size)
            case _:
                raise UsageError(
                    f"maddpg needs a Discrete or Box action space, but this world has {spaces.action}; use mappo"
                )
        model, self.num_members = config.model, world.slots
        leaves = policy_leaves(*spaces, model, normalize_observations=False)
        joint = {str(member): encoded_leaves(leaves) for member in range(self.num_members)}
        critic = critic_spec(joint, model, action_size=self.num_members * self.actions.size)
        actors = [actor_spec(leaves, model, self.actions.size)] * (1 if config.share_actor else self.num_members)
        module = ActorQNets([critic] * self.num_members, {"actors": actors}, model, seed=seed)
        super().__init__(config, leaves, space, module, acting=ACTORS)
        self.actors = torch_networks(module, ACTORS)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> TeamActorCriticsNetworks:
        targets = views if target_views is None else target_views
        return TeamActorCriticsNetworks(self.actors, self.critics, self.actions, views, targets)

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Samples Gumbel noise for Discrete actions; returns no columns for Box actions, which are deterministic."""
        return self.actions.draws(generator, (rows, length, self.num_members))

    @override
    def built_in_exploration(self) -> Exploration:
        space = self.action_space
        if isinstance(space, DeterministicBoxActions):
            return action_noise(space, self.config.exploration, self.config.ou_theta)
        return SampleActions(space)

    @override
    def acting_network(self) -> ActingNetwork:
        """Creates the network for action selection: the shared actor, or a network with each member's actor."""
        networks = [self.acting_side(actor) for actor in self.actors]
        return networks[0] if len(networks) == 1 else MemberNetworks(networks)
