"""Decentralised actors and centralised critics of a team's members (torch)."""

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

from rlrun.algorithms.actor_q.actor_q_nets import TeamActorQNets, actor_spec
from rlrun.algorithms.actor_q.networks import CRITICS, run
from rlrun.algorithms.multi_agent.member_actions import GumbelSoftmaxActions, MemberActions, SquashedActions
from rlrun.algorithms.multi_agent.member_networks import MemberNetworks
from rlrun.data.sample_batch import ACTS, SampleBatch
from rlrun.data.tree import map_tree
from rlrun.envs.spaces import Spaces
from rlrun.errors import UsageError
from rlrun.nn.model_config import ModelConfig
from rlrun.nn.network_spec import Head, Tower, network_spec
from rlrun.nn.observation_leaves import encoded_leaves
from rlrun.nn.torch_network import TorchNetwork
from rlrun.policy.acting_network import acting_network
from rlrun.policy.action_masks import masked_tensor, policy_leaves
from rlrun.policy.action_spaces.box_scale import bounded_box
from rlrun.policy.action_spaces.deterministic_box import DeterministicBoxActions
from rlrun.policy.action_spaces.discrete import DiscreteActions
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.exploration.action_noise import ActionNoise, NoiseKind
from rlrun.policy.exploration.sampling import SampleActions, UniformUntil
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy

ACTORS = "actors."


@dataclass(frozen=True)
class TeamActorCriticsNetworks:
    """Actors, critics and target networks, as losses call them; observations are trees of the operator `Team`.

    Attributes:
        policy: Whose networks they are.
        views: Their parameters by name.
        target_views: Those of the target networks.
    """

    policy: TeamActorCriticsPolicy
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]

    def actor_outputs(self, member: int, observations: Any) -> Tensor:
        """Returns the outputs of a member's actor, [S, L, A]."""
        return self._actor_outputs(self.views, member, observations)

    def target_actions(self, observations: Any, noise: Tensor | None) -> Tensor:
        """Returns actions of the members' target actors, without gradient, [S, L, K, A].

        Args:
            observations: Of the team.
            noise: By which they are drawn, [S, L, K, A]; None for actions that are not drawn.
        """
        with torch.no_grad():
            members = range(self.policy.num_members)
            outputs = [self._actor_outputs(self.target_views, member, observations) for member in members]
            return self.policy.actions.made(torch.stack(outputs, 2), noise)

    def value(self, member: int, observations: Any, actions: Tensor) -> Tensor:
        """Returns the Q values [S, L] of a member's critic for all members' actions [S, L, K, A]."""
        return self._value(self.views, member, observations, actions)

    def target_value(self, member: int, observations: Any, actions: Tensor) -> Tensor:
        """Returns the Q values of a member's target critic, without gradient."""
        with torch.no_grad():
            return self._value(self.target_views, member, observations, actions)

    def _actor_outputs(self, views: Mapping[str, Tensor], member: int, observations: Any) -> Tensor:
        own = _of_member(observations, member)
        return masked_tensor(run(self.policy.actor_of(member), views, own), own)

    def _value(self, views: Mapping[str, Tensor], member: int, observations: Any, actions: Tensor) -> Tensor:
        present = observations["present"].unsqueeze(-1)
        seen = {str(k): _of_member(observations, k) for k in range(self.policy.num_members)}
        joint = torch.where(present, actions, torch.zeros_like(actions)).flatten(2)
        return run(self.policy.critics[member], views, seen, joint).squeeze(-1)


def _of_member(observations: Any, member: int) -> Any:
    """Returns a member's own observation, a tree of [S, L, ...]."""
    return map_tree(lambda leaf: leaf[:, :, member], observations["agents"])


class TeamActorCriticsPolicy(Policy):
    """Policy of decentralised actors and centralised critics, one of each per member.

    Member k is who is in slot k of its world.

    Args:
        spaces: Observation and action space of each member.
        num_members: K.
        model: Layers of each actor and of each critic.
        seed: Seed of the first parameters.
        share_actor: Whether all members have one actor.
        uniform_steps: Env steps until which actions are drawn uniformly.
        noise: Which noise actions in a Box are explored with.
        theta: How much of correlated noise a step takes back.

    Raises:
        UsageError: If actions are neither Discrete nor a Box with finite bounds.
    """

    def __init__(
        self,
        spaces: Spaces,
        num_members: int,
        model: ModelConfig,
        *,
        seed: int,
        share_actor: bool,
        uniform_steps: int,
        noise: NoiseKind,
        theta: float,
    ) -> None:
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
        self.leaves = policy_leaves(*spaces, model, normalize_observations=False)
        self.num_members = num_members
        self.uniform_steps = uniform_steps
        self.noise: NoiseKind = noise
        self.theta = theta
        joint = {str(member): encoded_leaves(self.leaves) for member in range(num_members)}
        critic = network_spec(
            joint,
            model,
            Tower((Head("outputs", "head", 1),)),
            vectors=(("actions", num_members * self.actions.size),),
        )
        actor = actor_spec(self.leaves, model, self.actions.size)
        self.module = TeamActorQNets(critic, num_members, actor, 1 if share_actor else num_members, model, seed=seed)
        self.parameters = FlatParameters(self.module)
        self.critics = _networks(self.module.critics, CRITICS)
        self.actors = _networks(self.module.actors, ACTORS)

    def actor_of(self, member: int) -> TorchNetwork:
        """Returns the actor of a member."""
        return self.actors[member % len(self.actors)]

    @property
    @override
    def acting_range(self) -> tuple[int, int]:
        """The actors' parameters."""
        return self.parameters.range_under(ACTORS)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> TeamActorCriticsNetworks:
        return TeamActorCriticsNetworks(self, views, views if target_views is None else target_views)

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Returns the noise by which actions are drawn; none for those in a Box."""
        return self.actions.draws(generator, (rows, length, self.num_members))

    @override
    def behavior(self) -> BehaviorPolicy:
        """Returns the acting side, without weights: members draw their actions, or shift them by noise."""
        start, _ = self.acting_range
        networks = [acting_network(actor, self.parameters, start=start) for actor in self.actors]
        space = self.action_space
        explored = (
            SampleActions(space) if isinstance(space, DiscreteActions) else ActionNoise(space, self.noise, self.theta)
        )
        return BehaviorPolicy(
            networks[0] if len(networks) == 1 else MemberNetworks(networks),
            space,
            UniformUntil(explored, space, self.uniform_steps),
            self.leaves,
            normalize_observations=False,
            world_columns=(ACTS,),
        )


def _networks(modules: torch.nn.ModuleList, prefix: str) -> tuple[TorchNetwork, ...]:
    return tuple(TorchNetwork(module, prefix=f"{prefix}{i}.") for i, module in enumerate(modules))
