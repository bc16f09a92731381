"""Actor-critic policies with additional networks that compute rewards, as in curiosity and GAIL (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from torch import Tensor
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.policy.action_spaces.action_space import Distribution
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.policy import Policy

ACTOR_CRITIC = "actor_critic."
"""Prefix of the parameter names of the actor-critic."""

Views = Mapping[str, Tensor]


class RewardingPolicy(Policy):
    """Actor-critic policy with networks that compute rewards; only the actor-critic is needed for acting.

    Args:
        actor_critic: The actor-critic policy, whose parameter names receive the prefix `ACTOR_CRITIC`.

    Attributes:
        actor_critic: The actor-critic policy.
    """

    def __init__(self, actor_critic: ActorCriticPolicy) -> None:
        self.actor_critic = actor_critic
        self.leaves = actor_critic.leaves

    @property
    @override
    def acting_range(self) -> tuple[int, int]:
        """Offset and size of the actor-critic's parameters within the policy's flat parameter vector."""
        return self.parameters.range_under(ACTOR_CRITIC)

    @property
    @override
    def descended(self) -> str:
        """Common name prefix of the actor-critic's parameters, which the policy loss trains."""
        return ACTOR_CRITIC

    @override
    def behavior(self) -> BehaviorPolicy:
        """Creates the behavior policy for rollout workers, which contains only the actor-critic's networks."""
        return self.actor_critic.behavior()


class RewardingOutputs:
    """Outputs of a `RewardingPolicy` for its losses; the actor-critic's outputs are computed on first access.

    Args:
        actor_critic: The actor-critic.
        views: The policy's parameters by name.
        batch: Columns of S sequences with L steps, [S, L, ...].
    """

    def __init__(self, actor_critic: ActorCriticPolicy, views: Views, batch: SampleBatch) -> None:
        self._own = actor_critic
        self._views = views
        self._batch = batch

    @cached_property
    def _actor_critic(self) -> ActorCriticOutputs:
        own = {name.removeprefix(ACTOR_CRITIC): v for name, v in self._views.items() if name.startswith(ACTOR_CRITIC)}
        return self._own.outputs(own, self._batch)

    @property
    def distribution(self) -> Distribution:
        """Action distributions of the actor for each of L steps in S sequences, [S, L]."""
        return self._actor_critic.distribution

    @property
    def values(self) -> Tensor:
        """State values V(s) of the critic for S sequences of L steps, [S, L]."""
        return self._actor_critic.values

    @property
    def values_of_rewards(self) -> Tensor:
        """State values in units of rewards for S sequences of L steps, [S, L]."""
        return self._actor_critic.values_of_rewards

    @property
    def further_values(self) -> Mapping[str, Tensor]:
        """State values of additional rewards (intrinsic rewards, costs) by name of the reward stream, each [S, L]."""
        return self._actor_critic.further_values
