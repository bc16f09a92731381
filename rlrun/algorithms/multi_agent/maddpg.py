"""MADDPG: decentralized actors, with centralized critics that see all members' observations and actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from rlrun.algorithms.loss_metrics import GRAD_NORM, TD_METRICS, td_statistics
from rlrun.algorithms.multi_agent.team import GIVEN, JoinTeams
from rlrun.algorithms.settings.off_policy import (
    ActionNoiseSettings,
    ActorCriticSettings,
    OffPolicyConfig,
    actor_critic_defaults,
)
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.recipes.replay_updates import REPLAY_METRICS, replay_updates
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import NO_VIEWS, ActionValueModelConfig
from rlrun.engine.settings.config import NonNegativeFloat, defaults, fixed
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.multi_agent.team_networks import TeamActorCriticsNetworks
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.policy.policy import Policy
    from rlrun.engine.worlds.world_view import WorldView


@fixed(NO_VIEWS, model={"views": {}})
@fixed("the replay buffer stores observations unnormalized", normalize_observations=False)
@fixed("each member gets its own reward at each step", n_step=1)
@defaults(lr=1e-3, tau=0.01, gamma=0.95, max_grad_norm=0.5, training_intensity=0.25)
@actor_critic_defaults
@fixed("its losses average over the steps of each member, not over rows", num_learners=0)
class MADDPGConfig(ActionNoiseSettings, ActorCriticSettings, OffPolicyConfig):
    """Settings of MADDPG (Lowe et al., arXiv:1706.02275); a transition is a step of the whole team.

    Box actions are explored with additive noise; Discrete actions are sampled.
    """

    model: ActionValueModelConfig = ActionValueModelConfig(activation="relu", orthogonal_init=False)
    """Network architecture of each actor and of each critic."""
    share_actor: bool = False
    """Parameter sharing: whether all members have one actor. Their observations must then identify them, if they are to
    act differently."""
    output_penalty: NonNegativeFloat = 1e-3
    """Weight of a penalty on the mean square of the actors' outputs, as in the authors' code: logits of Discrete
    actions, or actions of a Box before tanh."""

    @classmethod
    @override
    def shapes_parameters(cls, path: str) -> bool:
        return path == "share_actor" or super().shapes_parameters(path)


class MADDPG(Algorithm[MADDPGConfig]):
    """Multi-agent DDPG: centralized critics, decentralized actors (arXiv:1706.02275)."""

    Config: ClassVar[type[MADDPGConfig]] = MADDPGConfig
    acts_in = ("bounded Box", "Discrete")
    policy_family = "rlrun.algorithms.multi_agent.team_actor_critics:TeamActorCriticsPolicy"
    has_target_network = True
    learner_metrics = (
        *(metric.below("critics/") for metric in TD_METRICS),
        Metric("actors/loss", "", "Loss of the actors, summed over the team's members"),
        GRAD_NORM.below("actors/"),
    )
    operator_metrics = REPLAY_METRICS

    @override
    def policy(self, spaces: Spaces, seed: int) -> Policy:
        """Raises a UsageError: MADDPG does not support single-agent envs.

        Raises:
            UsageError: Always.
        """
        raise UsageError("maddpg needs a multi-agent world, but this env has a single agent: use ddpg or sac")

    @override
    def policy_in_world(self, spaces: Spaces, world: WorldView, seed: int) -> Policy:
        """Creates an actor and a centralized critic for each team member (agent of a multi-agent env).

        Raises:
            UsageError: The agents act in turn, or actions are neither Discrete nor in a bounded Box.
        """
        if world.clock != "parallel":
            raise UsageError(
                "maddpg needs agents that act simultaneously, but the agents of this world take turns: use "
                "ppo, or set `clock: parallel` if all agents act in each step"
            )
        return self.family_policy(spaces, seed, world)

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Critic objective, then actor objective, each summed over the team members."""
        bound = self.config.max_grad_norm
        return [
            Objective("critics", self.critics_loss, lr="critic_lr", parameters="critics.", max_grad_norm=bound),
            Objective("actors", self.actors_loss, parameters="actors.", max_grad_norm=bound),
        ]

    def critics_loss(
        self, outputs: TeamActorCriticsNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]
    ) -> Loss:
        """Mean squared TD error (arXiv:1706.02275, eq. 6) over S steps of the team, summed over the members' critics.

        Each critic learns from its member's own reward, and bootstraps while the member is alive.
        """
        from rlrun.algorithms.multi_agent.member_actions import NEXT_NOISE

        actions = outputs.actions.recorded(batch["actions"])
        following = outputs.target_actions(batch["next_obs"], batch.get(NEXT_NOISE))
        acting = batch["obs"]["present"].float() * batch["valid"].float().unsqueeze(-1)
        lives = batch["next_obs"]["present"].float() * self.config.gamma
        total, distance, value_sum = (batch["rewards"].new_zeros(()) for _ in range(3))
        for member in range(outputs.num_members):
            own = acting[:, :, member]
            values = outputs.value(member, batch["obs"], actions)
            next_values = outputs.target_value(member, batch["next_obs"], following)
            errors = values - (batch["next_obs"][GIVEN][:, :, member] + lives[:, :, member] * next_values)
            total = total + masked_mean(errors.square() * batch["weights"], own)
            distance = distance + errors.detach().abs() * own
            value_sum = value_sum + values.detach() * own
        members = acting.sum(-1).clip(1)
        distance = distance / members
        statistics = td_statistics(total, value_sum / members, distance, batch["valid"].float())
        return Loss(total, statistics, priorities=distance.squeeze(-1))

    def actors_loss(
        self, outputs: TeamActorCriticsNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]
    ) -> Loss:
        """Actor loss: -Q_i with member i's own action replaced by its actor's output (arXiv:1706.02275, eqs. 4 and 5).

        The loss is summed over the members; each term has a gradient with respect to its own actor only.
        """
        from rlrun.algorithms.multi_agent.member_actions import NOISE

        noise = batch.get(NOISE)
        taken = outputs.actions.recorded(batch["actions"])
        acting = batch["obs"]["present"].float() * batch["valid"].float().unsqueeze(-1)
        loss = batch["rewards"].new_zeros(())
        for member in range(outputs.num_members):
            own = outputs.actor_outputs(member, batch["obs"])
            new = outputs.actions.made(own, None if noise is None else noise[:, :, member])
            values = outputs.value(member, batch["obs"], with_action(taken, member, new))
            penalty = (own * (own > LEAST_LOGIT)).square().mean(-1)
            loss = loss + masked_mean(self.config.output_penalty * penalty - values, acting[:, :, member])
        return Loss(loss, {"loss": loss})

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that stores joint transitions of the team and trains on replayed minibatches of them."""
        config = self.config
        replay = trainee.make_replay(config.replay, n_step=1, gamma=config.gamma)
        return (
            fragments.zip_with_worker()
            .for_each(JoinTeams(trainee, "sum", shows_given=True))
            .for_each(StoreToReplay(replay))
            .followed_by(replay_updates(replay, trainee, config))
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )


LEAST_LOGIT = -1e3
"""Threshold below which logits belong to masked actions, and are excluded from the output penalty."""


def with_action(actions: Tensor, member: int, action: Tensor) -> Tensor:
    """Replaces one member's action in joint actions [rows, steps, members, A] with another action [rows, steps, A]."""
    import torch

    return torch.cat([actions[:, :, :member], action.unsqueeze(2), actions[:, :, member + 1 :]], dim=2)
