"""Decentralized actors, centralized critics and their targets, for the losses of MADDPG (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlrun.algorithms.actor_q.networks import run
from rlrun.algorithms.multi_agent.member_actions import MemberActions
from rlrun.engine.data.tree import map_tree
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.action_masks import masked_tensor


@dataclass(frozen=True)
class TeamActorCriticsNetworks:
    """Actors and critics of K team members, as losses use them: evaluated with given parameters.

    Observations are joint observations of all members, as the operator `JoinTeams` builds them.

    Attributes:
        actors: Actor of each member, or one shared actor.
        critics: Centralized critic of each member, K.
        actions: Converts outputs of actors to differentiable actions.
        views: Online parameters by name.
        target_views: Parameters of the target networks by name.
    """

    actors: tuple[TorchNetwork, ...]
    critics: tuple[TorchNetwork, ...]
    actions: MemberActions
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]

    @property
    def num_members(self) -> int:
        """Number of team members, K."""
        return len(self.critics)

    def actor_outputs(self, member: int, observations: Any) -> Tensor:
        """Outputs of a member's actor for its own observations, under action masks, [rows, steps, action_size]."""
        return self._actor_outputs(self.views, member, observations)

    def target_actions(self, observations: Any, noise: Tensor | None) -> Tensor:
        """Joint actions [S, L, K, A] of the members' target actors, without gradient.

        Args:
            observations: Joint observations of the team.
            noise: Noise from which the actions are sampled, [S, L, K, A]; None for deterministic actions.
        """
        with torch.no_grad():
            members = range(self.num_members)
            outputs = [self._actor_outputs(self.target_views, member, observations) for member in members]
            return self.actions.made(torch.stack(outputs, 2), noise)

    def value(self, member: int, observations: Any, actions: Tensor) -> Tensor:
        """Q values [rows, steps] of joint actions [rows, steps, members, A], from a member's centralized critic."""
        return self._value(self.views, member, observations, actions)

    def target_value(self, member: int, observations: Any, actions: Tensor) -> Tensor:
        """Q values [rows, steps] of joint actions [rows, steps, members, A] from a target critic, without gradient."""
        with torch.no_grad():
            return self._value(self.target_views, member, observations, actions)

    def _actor_outputs(self, views: Mapping[str, Tensor], member: int, observations: Any) -> Tensor:
        own = _of_member(observations, member)
        return masked_tensor(run(self.actors[member % len(self.actors)], views, own), own)

    def _value(self, views: Mapping[str, Tensor], member: int, observations: Any, actions: Tensor) -> Tensor:
        present = observations["present"].unsqueeze(-1)
        seen = {str(k): _of_member(observations, k) for k in range(self.num_members)}
        joint = torch.where(present, actions, torch.zeros_like(actions)).flatten(2)
        return run(self.critics[member], views, seen, joint).squeeze(-1)


def _of_member(observations: Any, member: int) -> Any:
    """Local observation of a member, a tree of [S, L, ...], from a joint observation."""
    return map_tree(lambda leaf: leaf[:, :, member], observations["agents"])
