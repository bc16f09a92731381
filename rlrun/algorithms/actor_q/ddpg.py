"""DDPG: an actor that climbs a critic of actions, from a replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from rlrun.algorithm import Algorithm
from rlrun.algorithms.loss_metrics import GRAD_NORM, TD_METRICS
from rlrun.algorithms.settings.action_noise import ActionNoiseSettings
from rlrun.algorithms.settings.off_policy import OffPolicyActorCriticConfig
from rlrun.config import PositiveInt, defaults
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow
from rlrun.flow.operators.replay import StoreToReplay, UpdatePriorities
from rlrun.flow.operators.training import TrainOnMinibatch, UpdateTargetNetwork
from rlrun.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.flow.recipes.replays import transitions_or_sequences
from rlrun.flow.sources.replay_minibatches import replay_minibatches
from rlrun.flow.trainee import Trainee
from rlrun.functional.masked import masked_mean
from rlrun.functional.sequence_rows import row_priorities
from rlrun.learner.objective import Loss, Objective
from rlrun.metric import Metric
from rlrun.nn.model_config import ActorQModelConfig
from rlrun.replay.sequences import SequenceReplayConfig

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.actor_q.networks import DeterministicNetworks
    from rlrun.policy.policy import Policy


@defaults(lr=1e-3)
class DDPGConfig(ActionNoiseSettings, OffPolicyActorCriticConfig):
    """Settings of DDPG (Lillicrap et al., arXiv:1509.02971)."""

    num_critics: ClassVar[int] = 1
    """Q functions, of which the least counts."""
    draws_noise: ClassVar[bool] = False
    """Whether minibatches hold standard normal noise of the target's actions, `next_noise` [S, L, D]."""
    records_values: ClassVar[bool] = False
    """Whether fragments hold the critic's values."""
    model: ActorQModelConfig = ActorQModelConfig(hiddens=(256, 256), activation="relu", orthogonal_init=False)
    """The networks of the actor and of each critic."""
    minibatch_size: PositiveInt = 256
    """Transitions in a minibatch that is sampled from the replay buffer; with a recurrent network sequences."""
    replay: SequenceReplayConfig = SequenceReplayConfig(capacity=1_000_000)
    """The replay buffer."""


class DDPG(Algorithm[DDPGConfig]):
    """Store every step in the replay buffer, and learn a Q function and an actor from minibatches."""

    Config: ClassVar[type[DDPGConfig]] = DDPGConfig
    policy_family = "rlrun.algorithms.actor_q.deterministic_policy:DeterministicPolicy"
    has_target_network = True
    learner_metrics = (
        *(metric.below("critics/") for metric in TD_METRICS),
        Metric("actor/loss", "", "Loss of the actor"),
        GRAD_NORM.below("actor/"),
    )

    def objectives(self, policy: Policy) -> list[Objective]:
        """Returns the critics' error and, behind it, what the actor climbs."""
        bound = self.config.max_grad_norm
        return [
            Objective("critics", self.critics_loss, lr="critic_lr", parameters="critics.", max_grad_norm=bound),
            Objective("actor", self.actor_loss, parameters="actor.", every=self.actor_every(), max_grad_norm=bound),
        ]

    def actor_every(self) -> int:
        """Returns after how many minibatches the actor has its turn."""
        return 1

    def next_actions(self, outputs: DeterministicNetworks, batch: SampleBatch) -> Tensor:
        """Returns the actions in the next observations that targets count with, [S, L, D]."""
        return outputs.target_actions(outputs.following(batch))

    def critics_loss(self, outputs: DeterministicNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Mean squared temporal difference (arXiv:1509.02971, eq. 5) over rows [S, L], added up over the critics.

        The least of the target critics says what the next action is worth (arXiv:1802.09477, eq. 10).
        """
        valid = batch["valid"].float()
        values = outputs.values(outputs.present(batch), batch["actions"])
        following = outputs.following(batch)
        next_values = outputs.target_values(following, self.next_actions(outputs, batch)).amin(0)
        targets = (batch["rewards"] + batch["discounts"] * next_values).detach()
        errors = values - targets
        loss = masked_mean(errors.square().sum(0) * batch["weights"], valid)
        distance = errors.detach().abs().mean(0)
        statistics = {"loss": loss, "q_mean": masked_mean(values[0], valid), "td_error": masked_mean(distance, valid)}
        return Loss(loss, statistics, priorities=row_priorities(distance, valid))

    def actor_loss(self, outputs: DeterministicNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """What the first critic says of the actor's actions (arXiv:1509.02971, eq. 6), to be climbed."""
        observations = outputs.present(batch)
        values = outputs.first_values(observations, outputs.actions(observations))
        loss = -masked_mean(values, batch["valid"].float())
        return Loss(loss, {"loss": loss})

    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Fragments into the replay buffer, `training_intensity` minibatches per env step out of it, new weights."""
        config = self.config
        replay = transitions_or_sequences(
            config.replay,
            trainee,
            n_step=config.n_step,
            gamma=config.gamma,
            is_recurrent=config.model.core is not None,
        )
        updates = (
            replay_minibatches(
                replay,
                trainee,
                minibatch_size=config.minibatch_size,
                training_intensity=config.training_intensity,
                learning_starts=config.learning_starts,
                normalize_observations=config.normalize_observations,
            )
            .for_each(TrainOnMinibatch(trainee))
            .for_each(UpdatePriorities(replay))
            .for_each(UpdateTargetNetwork(trainee, config.target_update_interval, config.tau))
        )
        return (
            fragments.zip_with_worker()
            .for_each(StoreToReplay(replay))
            .followed_by(updates)
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )
