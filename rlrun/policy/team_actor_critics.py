"""Teams with one actor, and for each member a critic of everybody's observations and actions (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlrun.data.sample_batch import ACTS, SampleBatch
from rlrun.data.tree import map_tree
from rlrun.envs.spaces import Spaces
from rlrun.errors import UsageError
from rlrun.nn.actor_q_nets import ActorQNets, actor_spec
from rlrun.nn.model_config import ModelConfig
from rlrun.nn.network_spec import Head, Tower, network_spec
from rlrun.nn.observation_leaves import encoded_leaves, is_masked
from rlrun.policy.acting_network import acting_network
from rlrun.policy.action_masks import masked_tensor, policy_leaves
from rlrun.policy.action_spaces.discrete import DiscreteActions, gumbel
from rlrun.policy.actor_q_networks import ACTOR, networks_of, run
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.exploration.sampling import SampleActions
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy

NOISE = "gumbel_noise"
"""Column of a minibatch with standard Gumbel noise of the present actor's actions, [S, L, K * A]."""

NEXT_NOISE = "next_gumbel_noise"
"""The same of the target actor's actions in the next observations."""


@dataclass(frozen=True)
class TeamActorCriticsNetworks:
    """Networks, to be run on what a loss chooses; observations are trees as the operator `Team` makes them.

    Attributes:
        policy: Whose networks they are.
        views: Their parameters by name.
        target_views: Those of the target networks.
    """

    policy: TeamActorCriticsPolicy
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]

    def logits(self, observations: Any) -> Tensor:
        """Returns the actor's logits of each member's actions, [S, L, K, A]."""
        return self._logits(self.views, observations)

    def target_actions(self, observations: Any, noise: Tensor) -> Tensor:
        """Returns actions of the target actor, drawn by noise, one-hot, [S, L, K, A]."""
        with torch.no_grad():
            return self.drawn(self._logits(self.target_views, observations), noise)

    def drawn(self, logits: Tensor, noise: Tensor) -> Tensor:
        """Returns actions [S, L, K, A] drawn from logits: one-hot, with the gradient of the softmax behind them.

        Args:
            logits: Of each member's actions, [S, L, K, A].
            noise: Standard Gumbel, [S, L, K * A].

        Source:
            Jang et al., arXiv:1611.01144, section 2.2, straight-through, with temperature 1.
        """
        soft = (logits + noise.view(logits.shape)).softmax(-1)
        return self.one_hot(soft.argmax(-1)) + soft - soft.detach()

    def one_hot(self, actions: Tensor) -> Tensor:
        """Returns actions [S, L, K] as numbers, [S, L, K, A]."""
        choices = torch.arange(self.policy.action_space.num_outputs, device=actions.device)
        return (actions.unsqueeze(-1) == choices).float()

    def value(self, member: int, observations: Any, actions: Tensor) -> Tensor:
        """Returns what a member's critic says of all members' actions [S, L, K, A], [S, L]."""
        return self._value(self.views, member, observations, actions)

    def target_value(self, member: int, observations: Any, actions: Tensor) -> Tensor:
        """Returns what a member's target critic says, without gradient."""
        with torch.no_grad():
            return self._value(self.target_views, member, observations, actions)

    def _logits(self, views: Mapping[str, Tensor], observations: Any) -> Tensor:
        rows, length, members = observations["present"].shape
        agents = map_tree(lambda leaf: leaf.flatten(1, 2), observations["agents"])
        logits = run(self.policy.actor, views, agents)
        if self.policy.is_masked:
            logits = masked_tensor(logits, agents)
        return logits.view(rows, length, members, -1)

    def _value(self, views: Mapping[str, Tensor], member: int, observations: Any, actions: Tensor) -> Tensor:
        present = observations["present"].unsqueeze(-1)
        seen = {
            str(k): map_tree(lambda leaf, k=k: leaf[:, :, k], observations["agents"])
            for k in range(self.policy.num_members)
        }
        joint = torch.where(present, actions, torch.zeros_like(actions)).flatten(2)
        return run(self.policy.critics[member], views, seen, joint).squeeze(-1)


class TeamActorCriticsPolicy(Policy):
    """An actor that all members share, and for each a critic that sees what all members see and do.

    Args:
        spaces: Observation and action space of each member.
        num_members: K.
        model: Layers of the actor and of each critic.
        seed: Seed of the first parameters.

    Raises:
        UsageError: If actions are not Discrete.
    """

    def __init__(self, spaces: Spaces, num_members: int, model: ModelConfig, *, seed: int) -> None:
        if not isinstance(spaces.action, gymnasium.spaces.Discrete):
            raise UsageError(f"maddpg takes Discrete actions, not {spaces.action}: use mappo")
        self.action_space = DiscreteActions(spaces.action)
        self.leaves = policy_leaves(*spaces, model, normalize_observations=False)
        self.is_masked = is_masked(self.leaves)
        self.num_members = num_members
        joint = {str(member): encoded_leaves(self.leaves) for member in range(num_members)}
        critic = network_spec(
            joint,
            model,
            Tower((Head("outputs", "head", 1),)),
            vectors=(("actions", num_members * self.action_space.num_outputs),),
        )
        actor = actor_spec(self.leaves, model, self.action_space.num_outputs)
        self.module = ActorQNets(critic, num_members, actor, model, seed=seed)
        self.parameters = FlatParameters(self.module)
        self.critics, own = networks_of(self.module)
        assert own is not None
        self.actor = own

    @property
    def acting_range(self) -> tuple[int, int]:
        """The actor."""
        return self.parameters.range_under(ACTOR)

    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> TeamActorCriticsNetworks:
        """Returns the networks."""
        return TeamActorCriticsNetworks(self, views, views if target_views is None else target_views)

    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Returns the noise by which actions are drawn."""
        shape = (rows, length, self.num_members * self.action_space.num_outputs)
        return {NOISE: gumbel(generator, shape), NEXT_NOISE: gumbel(generator, shape)}

    def behavior(self) -> BehaviorPolicy:
        """Returns the acting side, without weights: each member draws its action."""
        start, _ = self.acting_range
        return BehaviorPolicy(
            acting_network(self.actor, self.parameters, start=start),
            self.action_space,
            SampleActions(self.action_space),
            self.leaves,
            normalize_observations=False,
            world_columns=(ACTS,),
        )
