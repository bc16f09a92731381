"""Decentralised actors and centralised critics of a team's members (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import TeamActorQNets, actor_spec
from rlrun.algorithms.actor_q.networks import CRITICS
from rlrun.algorithms.multi_agent.member_actions import GumbelSoftmaxActions, MemberActions, SquashedActions
from rlrun.algorithms.multi_agent.member_networks import MemberNetworks
from rlrun.algorithms.multi_agent.team_networks import TeamActorCriticsNetworks
from rlrun.data.sample_batch import ACTS, SampleBatch
from rlrun.envs.spaces import Spaces
from rlrun.errors import UsageError
from rlrun.nn.network_spec import Head, Tower, network_spec
from rlrun.nn.observation_leaves import encoded_leaves
from rlrun.nn.torch_network import TorchNetwork
from rlrun.policy.acting_network import acting_network
from rlrun.policy.action_masks import policy_leaves
from rlrun.policy.action_spaces.box_scale import bounded_box
from rlrun.policy.action_spaces.deterministic_box import DeterministicBoxActions
from rlrun.policy.action_spaces.discrete import DiscreteActions
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.exploration.action_noise import action_noise
from rlrun.policy.exploration.exploration import Exploration, own_exploration
from rlrun.policy.exploration.sampling import SampleActions, UniformUntil
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy
from rlrun.worlds.world_view import WorldView

if TYPE_CHECKING:
    from rlrun.algorithms.multi_agent.maddpg import MADDPGConfig

ACTORS = "actors."


class TeamActorCriticsPolicy(Policy):
    """Policy of MADDPG: a decentralised actor and a centralised critic per team member.

    Member k is the agent in slot k of its world. With parameter sharing, all members have one actor.

    Args:
        spaces: Observation and action space of each member.
        config: Settings of MADDPG.
        seed: Seed of the initial parameters.
        world: Description of the team's world, which has K agent slots.

    Raises:
        UsageError: If actions are neither Discrete nor a Box with finite bounds.
    """

    def __init__(self, spaces: Spaces, config: MADDPGConfig, seed: int, world: WorldView) -> None:
        self.actions: MemberActions
        self.action_space: DiscreteActions | DeterministicBoxActions
        match spaces.action:
            case gymnasium.spaces.Discrete():
                self.action_space = DiscreteActions(spaces.action)
                self.actions = GumbelSoftmaxActions(self.action_space.num_outputs)
            case gymnasium.spaces.Box():
                self.action_space = DeterministicBoxActions(bounded_box(spaces.action, "a deterministic policy"))
                self.actions = SquashedActions(self.action_space.size)
            case _:
                raise UsageError(f"maddpg takes Discrete or Box actions, not {spaces.action}: use mappo")
        model, num_members = config.model, world.slots
        self.leaves = policy_leaves(*spaces, model, normalize_observations=False)
        self.num_members = num_members
        self.config = config
        joint = {str(member): encoded_leaves(self.leaves) for member in range(num_members)}
        critic = network_spec(
            joint,
            model,
            Tower((Head("outputs", "head", 1),)),
            vectors=(("actions", num_members * self.actions.size),),
        )
        actor = actor_spec(self.leaves, model, self.actions.size)
        num_actors = 1 if config.share_actor else num_members
        self.module = TeamActorQNets(critic, num_members, actor, num_actors, model, seed=seed)
        self.parameters = FlatParameters(self.module)
        self.critics = _networks(self.module.critics, CRITICS)
        self.actors = _networks(self.module.actors, ACTORS)

    @property
    @override
    def acting_range(self) -> tuple[int, int]:
        """Slice of the actors' parameters, as (start, size)."""
        return self.parameters.range_under(ACTORS)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> TeamActorCriticsNetworks:
        targets = views if target_views is None else target_views
        return TeamActorCriticsNetworks(self.actors, self.critics, self.actions, views, targets)

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Samples Gumbel noise of Discrete actions; no columns for Box actions, which are deterministic."""
        return self.actions.draws(generator, (rows, length, self.num_members))

    @override
    def behavior(self) -> BehaviorPolicy:
        """Creates the behavior policy, with its weights not yet loaded: samples, or adds action noise."""
        start, _ = self.acting_range
        networks = [acting_network(actor, self.parameters, start=start) for actor in self.actors]
        space = self.action_space
        return BehaviorPolicy(
            networks[0] if len(networks) == 1 else MemberNetworks(networks),
            space,
            UniformUntil(self._exploration(), space, self.config.learning_starts),
            self.leaves,
            normalize_observations=False,
            world_columns=(ACTS,),
        )

    def _exploration(self) -> Exploration:
        config, space = self.config, self.action_space
        if isinstance(space, DeterministicBoxActions):
            return action_noise(config.exploration, config.ou_theta, space)
        return own_exploration(config.exploration, space) if ":" in config.exploration else SampleActions(space)


def _networks(modules: torch.nn.ModuleList, prefix: str) -> tuple[TorchNetwork, ...]:
    return tuple(TorchNetwork(module, prefix=f"{prefix}{i}.") for i, module in enumerate(modules))
