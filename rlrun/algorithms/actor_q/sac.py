"""SAC: off-policy maximum-entropy actor-critic with twin Q functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from typing_extensions import override

from rlrun.algorithms.actor_q.objectives import critics_and_actor, loss_of_critics
from rlrun.algorithms.loss_metrics import ENTROPY, GRAD_NORM, TD_METRICS
from rlrun.algorithms.settings.off_policy import (
    ActorCriticSettings,
    CriticEnsembleSettings,
    OffPolicyConfig,
    actor_critic_defaults,
)
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.space_kinds import ActionKind
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.recipes.replay_updates import REPLAY_METRICS, replay_updates
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.nn.model_config import SoftModelConfig
from rlrun.engine.replay.replay_config import SequenceReplayConfig
from rlrun.engine.settings.config import ImportPath, PositiveFloat, PositiveInt, Schedule
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.actor_q.soft_networks import Soft, SoftNetworks
    from rlrun.engine.flow.operators.minibatches import TrainedMinibatch
    from rlrun.engine.policy.policy import Policy
    from rlrun.engine.replay.replay import Replay


@actor_critic_defaults
class SACConfig(CriticEnsembleSettings, ActorCriticSettings, OffPolicyConfig):
    """Settings of SAC (Haarnoja et al., arXiv:1801.01290 and arXiv:1812.05905)."""

    model: SoftModelConfig = SoftModelConfig(hiddens=(256, 256), activation="relu", orthogonal_init=False)
    """Network architecture of the actor and of each critic."""
    minibatch_size: PositiveInt = 256
    """Transitions per minibatch from the replay buffer; sequences per minibatch if the network is recurrent."""
    replay: SequenceReplayConfig = SequenceReplayConfig(capacity=1_000_000)
    """Settings of the replay buffer."""
    exploration: Literal["sampled", "repeated"] | ImportPath = "sampled"
    """Exploration in training: `sampled` samples actions from the actor's distribution; `repeated`, for a Box, does so
    with noise that is held for 1 to 16 steps (FlashSAC, arXiv:2604.04539); `package.module:Class` is a custom
    exploration."""
    alpha_lr: Schedule = 3e-4
    """Learning rate of the entropy temperature."""
    initial_alpha: PositiveFloat = 1.0
    """Initial entropy temperature."""
    learn_alpha: bool = True
    """Whether the temperature is learned, so that the actor's entropy approaches target_entropy (arXiv:1812.05905,
    section 5); otherwise it is constant."""
    target_entropy: float | None = None
    """Target entropy in nats, for actions in units of half the distance between their bounds. null for minus the number
    of continuous actions, or for Discrete actions 0.98 times the uniform distribution's entropy over the allowed
    actions.
    """


class SAC(Algorithm[SACConfig]):
    """Soft Actor-Critic: maximum-entropy actor-critic with twin Q functions and a learned temperature.

    Actions may be a bounded Box or Discrete (Christodoulou, arXiv:1910.07207); the losses are the same, with exact sums
    over discrete actions.
    """

    Config: ClassVar[type[SACConfig]] = SACConfig
    acts_in: ClassVar[tuple[ActionKind, ...]] = ("bounded Box", "Discrete")
    policy_family = "rlrun.algorithms.actor_q.soft_policy:SoftPolicy"
    learner_metrics = (
        *(metric.below("critics/") for metric in TD_METRICS),
        Metric("actor/loss", "", "Loss of the actor"),
        ENTROPY.below("actor/"),
        GRAD_NORM.below("actor/"),
        Metric("alpha/loss", "", "Loss of the temperature"),
        Metric("alpha/alpha", "", "Temperature: the weight of the entropy"),
        GRAD_NORM.below("alpha/"),
    )

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        return REPLAY_METRICS

    @property
    @override
    def has_target_network(self) -> bool:
        return True

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Objectives of the learner, in this order: critics, actor and temperature."""
        every, bound = self.config.policy_delay, self.config.max_grad_norm
        objectives = critics_and_actor(self.critics_loss, self.actor_loss, policy_delay=every, max_grad_norm=bound)
        if self.config.learn_alpha:
            objectives.append(
                Objective(
                    "alpha", self.alpha_loss, lr="alpha_lr", parameters="log_alpha", every=every, needs=("actor",)
                )
            )
        return objectives

    def critics_loss(self, outputs: SoftNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Soft Bellman residual: half the squared soft TD error, summed over the critics (arXiv:1812.05905, eq. 5)."""
        valid = batch["valid"].float()
        values, ahead = outputs.values_and_next(batch)
        soft_values = ahead.values - outputs.log_alpha.detach().exp() * ahead.log_probs
        targets = batch["rewards"] + batch["discounts"] * soft_values
        residuals = outputs.returns.residuals(values, targets, ahead.probabilities)
        loss = masked_mean(residuals.losses * batch["weights"], valid)
        return replace(loss_of_critics(loss, residuals.values, residuals.errors, valid), assign=ahead.moved)

    def actor_loss(self, outputs: SoftNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Actor loss: E[alpha log pi(a | s) - Q(s, a)] (arXiv:1812.05905, eq. 7).

        Q is the minimum over the critics unless the setting `actor_objective` chooses the first critic or the mean.
        """
        valid = batch["valid"].float()
        present = outputs.sample_and_evaluate(batch, self.config.actor_objective)
        loss = masked_mean(outputs.log_alpha.detach().exp() * present.log_probs - present.values, valid)
        statistics = {"loss": loss, "entropy": -masked_mean(present.log_probs.detach(), valid)}
        statistics |= self.actor_statistics(present, batch)
        return Loss(loss, statistics, carry={"log_probs": present.log_probs}, assign=present.moved)

    def actor_statistics(self, present: Soft, batch: SampleBatch) -> dict[str, Tensor]:
        """Additional statistics of the actor's loss by name, each a scalar; none by default."""
        return {}

    def alpha_loss(self, outputs: SoftNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Temperature loss: -log_alpha (log pi + target entropy) (arXiv:1812.05905, eq. 18).

        As in common implementations, the loss is linear in log_alpha instead of alpha.
        """
        asked = self.config.target_entropy
        target = outputs.target_entropy(batch) if asked is None else asked
        surplus = masked_mean(-batch["actor/log_probs"], batch["valid"].float()) - target
        loss = (outputs.log_alpha * surplus).sum()
        return Loss(loss, {"loss": loss, "alpha": outputs.log_alpha.detach().exp().sum()})

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that stores rollouts in the replay buffer and trains on minibatches sampled from it.

        The dataflow trains on `training_intensity` minibatches per env step, and broadcasts the weights to the workers.
        """
        replay = self.make_replay(trainee)
        return self.learn_from(replay, fragments, replay_updates(replay, trainee, self.config), trainee)

    def make_replay(self, trainee: Trainee) -> Replay:
        """Creates the replay buffer, which holds transitions, or sequences for recurrent networks."""
        config = self.config
        return trainee.make_replay(
            config.replay, n_step=config.n_step, gamma=config.gamma, sequences=config.model.core is not None
        )

    def learn_from(
        self, replay: Replay, fragments: Flow[SampleBatch], updates: Flow[TrainedMinibatch], trainee: Trainee
    ) -> Flow[Any]:
        """Builds the dataflow that stores rollouts in a replay buffer, runs due updates, and broadcasts the weights.

        Args:
            replay: The replay buffer.
            fragments: The rollouts.
            updates: Flow of the updates on minibatches from the replay buffer.
            trainee: The policy in training.
        """
        return (
            fragments.zip_with_worker()
            .for_each(StoreToReplay(replay))
            .followed_by(updates)
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )
