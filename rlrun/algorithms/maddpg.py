"""MADDPG: an actor for all members of a team, and for each a critic of everybody's observations and actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from rlrun.algorithm import Algorithm
from rlrun.algorithms.loss_metrics import GRAD_NORM, TD_METRICS
from rlrun.algorithms.settings_off_policy import OffPolicyActorCriticConfig
from rlrun.config import NonNegativeFloat, defaults, fixed
from rlrun.data.sample_batch import SampleBatch
from rlrun.errors import UsageError
from rlrun.flow.flow import Flow
from rlrun.flow.operators.replay import StoreToReplay, UpdatePriorities
from rlrun.flow.operators.team import GIVEN, Team
from rlrun.flow.operators.training import TrainOnMinibatch, UpdateTargetNetwork
from rlrun.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.flow.recipes.replays import local_replay
from rlrun.flow.sources.replay_minibatches import replay_minibatches
from rlrun.flow.trainee import Trainee
from rlrun.functional.masked import masked_mean
from rlrun.learner.objective import Loss, Objective
from rlrun.metric import Metric
from rlrun.nn.model_config import ActionValueModelConfig

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.envs.spaces import Spaces
    from rlrun.policy.policy import Policy
    from rlrun.policy.team_actor_critics import TeamActorCriticsNetworks
    from rlrun.worlds.world import WorldView


@fixed("a replay of teams keeps observations as they are", normalize_observations=False)
@fixed("members are given rewards of their own, step by step", n_step=1)
@defaults(lr=1e-3, tau=0.01, gamma=0.95, max_grad_norm=0.5, training_intensity=0.25)
class MADDPGConfig(OffPolicyActorCriticConfig):
    """Settings of MADDPG (Lowe et al., arXiv:1706.02275); a transition is a step of the whole team."""

    model: ActionValueModelConfig = ActionValueModelConfig(activation="relu", orthogonal_init=False)
    """The networks of the actor that all members share, and of each critic."""
    logit_penalty: NonNegativeFloat = 1e-3
    """Weight of the mean square of the logits in the actor's loss, as in the authors' code."""


class MADDPG(Algorithm[MADDPGConfig]):
    """Centralised critics, decentralised actors (arXiv:1706.02275); members share the actor's parameters."""

    Config: ClassVar[type[MADDPGConfig]] = MADDPGConfig
    has_target_network = True
    learner_metrics = (
        *(metric.below("critics/") for metric in TD_METRICS),
        Metric("actor/loss", "", "Loss of the actor"),
        GRAD_NORM.below("actor/"),
    )

    def policy(self, spaces: Spaces, seed: int) -> Policy:
        """Refuses an env of one agent.

        Raises:
            UsageError: Always.
        """
        raise UsageError("maddpg learns for a team in a world of many agents, and an env has one: use ddpg or sac")

    def policy_in_world(self, spaces: Spaces, world: WorldView, seed: int) -> Policy:
        """Returns an actor and a critic for each member.

        Raises:
            UsageError: Agents of the world take turns, or actions are not Discrete.
        """
        from rlrun.policy.team_actor_critics import TeamActorCriticsPolicy

        if world.clock != "parallel":
            raise UsageError(
                "maddpg learns for teams that act at once, and agents of this world take turns: use ppo, or set "
                "`clock: parallel` if all agents act in each step"
            )
        return TeamActorCriticsPolicy(spaces, world.slots, self.config.model, seed=seed)

    def objectives(self, policy: Policy) -> list[Objective]:
        """Returns the critics' error and, behind it, what the actor climbs."""
        bound = self.config.max_grad_norm
        return [
            Objective("critics", self.critics_loss, lr="critic_lr", parameters="critics.", max_grad_norm=bound),
            Objective("actor", self.actor_loss, parameters="actor.", max_grad_norm=bound),
        ]

    def critics_loss(
        self, outputs: TeamActorCriticsNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]
    ) -> Loss:
        """Mean squared TD error (arXiv:1706.02275, eq. 6) over rows [S, 1], added up over the members' critics.

        A member is compared with what it was given itself; the value of the next actions counts while it lives.
        """
        from rlrun.policy.team_actor_critics import NEXT_NOISE

        actions = outputs.one_hot(batch["actions"])
        following = outputs.target_actions(batch["next_obs"], batch[NEXT_NOISE])
        acting = batch["obs"]["present"].float() * batch["valid"].float().unsqueeze(-1)
        lives = batch["next_obs"]["present"].float() * self.config.gamma
        total, distance, value_sum = (batch["rewards"].new_zeros(()) for _ in range(3))
        for member in range(outputs.policy.num_members):
            own = acting[:, :, member]
            values = outputs.value(member, batch["obs"], actions)
            next_values = outputs.target_value(member, batch["next_obs"], following)
            errors = values - (batch["next_obs"][GIVEN][:, :, member] + lives[:, :, member] * next_values)
            total = total + masked_mean(errors.square() * batch["weights"], own)
            distance = distance + errors.detach().abs() * own
            value_sum = value_sum + values.detach() * own
        members = acting.sum(-1).clip(1)
        valid = batch["valid"].float()
        statistics = {
            "loss": total,
            "q_mean": masked_mean(value_sum / members, valid),
            "td_error": masked_mean(distance / members, valid),
        }
        return Loss(total, statistics, priorities=(distance / members).squeeze(-1))

    def actor_loss(
        self, outputs: TeamActorCriticsNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]
    ) -> Loss:
        """What each member's critic says of its own new action beside the others' old ones (eq. 5), to be climbed."""
        from rlrun.policy.team_actor_critics import NOISE

        taken, logits = outputs.one_hot(batch["actions"]), outputs.logits(batch["obs"])
        drawn = outputs.drawn(logits, batch[NOISE])
        acting = batch["obs"]["present"].float() * batch["valid"].float().unsqueeze(-1)
        loss = self.config.logit_penalty * masked_mean((logits * (logits > LEAST_LOGIT)).square().mean(-1), acting)
        for member in range(outputs.policy.num_members):
            others = [taken[:, :, :member], drawn[:, :, member : member + 1], taken[:, :, member + 1 :]]
            loss = loss - masked_mean(outputs.value(member, batch["obs"], joined(others)), acting[:, :, member])
        return Loss(loss, {"loss": loss})

    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Fragments as steps of teams into the replay buffer, minibatches out of it, new weights."""
        config = self.config
        replay = local_replay(config.replay, trainee, n_step=1, gamma=config.gamma)
        updates = (
            replay_minibatches(
                replay,
                trainee,
                minibatch_size=config.minibatch_size,
                training_intensity=config.training_intensity,
                learning_starts=config.learning_starts,
            )
            .for_each(TrainOnMinibatch(trainee))
            .for_each(UpdatePriorities(replay))
            .for_each(UpdateTargetNetwork(trainee, config.target_update_interval, config.tau))
        )
        return (
            fragments.zip_with_worker()
            .for_each(Team(trainee, "sum", shows_given=True))
            .for_each(StoreToReplay(replay))
            .followed_by(updates)
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )


LEAST_LOGIT = -1e3
"""Logits of forbidden actions lie below it, and are not to count."""


def joined(parts: list[Tensor]) -> Tensor:
    """Returns members' actions side by side, [S, L, K, A]."""
    import torch

    return torch.cat(parts, dim=2)
