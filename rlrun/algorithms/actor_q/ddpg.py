"""DDPG: off-policy deterministic policy gradient with a replay buffer and target networks; TD3 adds twin critics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from rlrun.algorithms.actor_q.objectives import critics_and_actor, loss_of_critics
from rlrun.algorithms.loss_metrics import GRAD_NORM, TD_METRICS
from rlrun.algorithms.settings.off_policy import (
    ActionNoiseSettings,
    ActorCriticSettings,
    CriticEnsembleSettings,
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
from rlrun.engine.nn.model_config import ActorQModelConfig
from rlrun.engine.replay.replay_config import SequenceReplayConfig
from rlrun.engine.settings.config import NonNegativeFloat, PositiveInt, defaults
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.actor_q.networks import DeterministicNetworks
    from rlrun.engine.policy.policy import Policy


@defaults(lr=1e-3, num_critics=1, actor_objective="first")
@actor_critic_defaults
class DDPGConfig(ActionNoiseSettings, CriticEnsembleSettings, ActorCriticSettings, OffPolicyConfig):
    """Settings of DDPG (Lillicrap et al., arXiv:1509.02971)."""

    records_values: ClassVar[bool] = False
    """Whether fragments include the critic's Q values, for initial replay priorities."""
    model: ActorQModelConfig = ActorQModelConfig(hiddens=(256, 256), activation="relu", orthogonal_init=False)
    """Network architecture of the actor and of each critic."""
    minibatch_size: PositiveInt = 256
    """Transitions per minibatch from the replay buffer; sequences per minibatch if the network is recurrent."""
    replay: SequenceReplayConfig = SequenceReplayConfig(capacity=1_000_000)
    """Settings of the replay buffer."""
    target_noise: NonNegativeFloat = 0.0
    """Standard deviation of the target policy smoothing noise (TD3, arXiv:1802.09477, eq. 14), in units of half the
    distance between the action bounds; 0 for none."""
    target_noise_clip: NonNegativeFloat = 0.5
    """Clip bound of the target policy smoothing noise."""


class DDPG(Algorithm[DDPGConfig]):
    """Deep deterministic policy gradient: an off-policy actor-critic for continuous actions (arXiv:1509.02971)."""

    Config: ClassVar[type[DDPGConfig]] = DDPGConfig
    acts_in = ("bounded Box",)
    policy_family = "rlrun.algorithms.actor_q.deterministic_policy:DeterministicPolicy"
    has_target_network = True
    learner_metrics = (
        *(metric.below("critics/") for metric in TD_METRICS),
        Metric("actor/loss", "", "Loss of the actor"),
        GRAD_NORM.below("actor/"),
    )

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        return REPLAY_METRICS

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Objectives of the learner: first the critics' loss, then the actor's."""
        every, bound = self.config.policy_delay, self.config.max_grad_norm
        return critics_and_actor(self.critics_loss, self.actor_loss, policy_delay=every, max_grad_norm=bound)

    def next_actions(self, outputs: DeterministicNetworks, batch: SampleBatch) -> Tensor:
        """Target actor's actions [rows, steps, D] at the next observations, plus noise if `target_noise` is above 0."""
        actions = outputs.target_actions(outputs.following(batch))
        if not self.config.target_noise:
            return actions
        bound = self.config.target_noise_clip
        smoothed: Tensor = actions + (batch["next_noise"] * self.config.target_noise).clamp(-bound, bound)
        return smoothed.clamp(-1.0, 1.0)

    def next_values(self, outputs: DeterministicNetworks, batch: SampleBatch) -> Tensor:
        """Q values [rows, steps] of the target actor's next actions: the minimum over the target critics."""
        actions = self.next_actions(outputs, batch)
        return outputs.target_minimum(outputs.target_values(outputs.following(batch), actions), batch)

    def critics_loss(self, outputs: DeterministicNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Mean squared TD error (arXiv:1509.02971, eq. 5) over S sequences of L steps, summed over the critics.

        Targets use the minimum over the target critics, or over a random subset of them: clipped double Q-learning
        (arXiv:1802.09477, eq. 10).
        """
        valid = batch["valid"].float()
        values = outputs.values(outputs.present(batch), batch["actions"])
        targets = (batch["rewards"] + batch["discounts"] * self.next_values(outputs, batch)).detach()
        errors = values - targets
        loss = masked_mean(errors.square().sum(0) * batch["weights"], valid)
        return loss_of_critics(loss, values, errors, valid)

    def actor_loss(self, outputs: DeterministicNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Actor loss: -Q(s, pi(s)), the deterministic policy gradient (arXiv:1509.02971, eq. 6)."""
        observations = outputs.present(batch)
        values = outputs.actor_values(self.config.actor_objective, observations, outputs.actions(observations))
        loss = -masked_mean(values.squeeze(-1), batch["valid"].float())
        return Loss(loss, {"loss": loss})

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that stores rollouts in the replay buffer and trains on minibatches sampled from it.

        The dataflow trains on `training_intensity` minibatches per env step, and broadcasts the weights to the workers.
        """
        config = self.config
        replay = trainee.make_replay(
            config.replay, n_step=config.n_step, gamma=config.gamma, sequences=config.model.core is not None
        )
        return (
            fragments.zip_with_worker()
            .for_each(StoreToReplay(replay))
            .followed_by(replay_updates(replay, trainee, config))
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )


@defaults(num_critics=2, policy_delay=2, target_update_interval=2, target_noise=0.2)
class TD3Config(DDPGConfig):
    """Settings of TD3 (Fujimoto et al., arXiv:1802.09477): the settings of DDPG, with other defaults."""


class TD3(DDPG):
    """DDPG with clipped double Q-learning, delayed policy updates and target policy smoothing (arXiv:1802.09477)."""

    Config: ClassVar[type[DDPGConfig]] = TD3Config
