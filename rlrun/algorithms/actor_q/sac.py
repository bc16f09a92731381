"""SAC: off-policy maximum-entropy actor-critic with twin Q functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Lt
from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithm import Algorithm
from rlrun.algorithms.actor_q.objectives import critics_and_actor, loss_of_critics, running_statistics
from rlrun.algorithms.actor_q.reset_networks import ResetNetworks
from rlrun.algorithms.loss_metrics import ENTROPY, GRAD_NORM, TD_METRICS
from rlrun.algorithms.settings.critic_ensemble import CriticEnsembleSettings
from rlrun.algorithms.settings.off_policy import ActorCriticSettings, OffPolicyConfig, actor_critic_defaults
from rlrun.config import ImportPath, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, Schedule
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow
from rlrun.flow.operators.replay import StoreToReplay
from rlrun.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.flow.recipes.replay_updates import replay_updates
from rlrun.flow.trainee import Trainee
from rlrun.functional.masked import masked_mean
from rlrun.learner.objective import Loss, Objective
from rlrun.learner.optimizers import Adam, AdamW
from rlrun.metric import Metric
from rlrun.nn.model_config import SoftModelConfig
from rlrun.replay.replay_config import SequenceReplayConfig

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.actor_q.soft_networks import Soft, SoftNetworks
    from rlrun.policy.policy import Policy


@actor_critic_defaults
class SACConfig(CriticEnsembleSettings, ActorCriticSettings, OffPolicyConfig):
    """Settings of SAC (Haarnoja et al., arXiv:1801.01290 and arXiv:1812.05905)."""

    model: SoftModelConfig = SoftModelConfig(hiddens=(256, 256), activation="relu", orthogonal_init=False)
    """Network architecture of the actor and of each critic."""
    minibatch_size: PositiveInt = 256
    """Transitions per minibatch from the replay buffer; sequences per minibatch if the network is recurrent."""
    replay: SequenceReplayConfig = SequenceReplayConfig(capacity=1_000_000)
    """Settings of the replay buffer."""
    exploration: Literal["sampled"] | ImportPath = "sampled"
    """Exploration in training: `sampled` samples actions from the actor's distribution; `package.module:Class` is a
    custom exploration."""
    alpha_lr: Schedule = 3e-4
    """Learning rate of the entropy temperature."""
    initial_alpha: PositiveFloat = 1.0
    """Initial entropy temperature."""
    learn_alpha: bool = True
    """Whether the temperature is learned, so that the actor's entropy approaches target_entropy (arXiv:1812.05905,
    section 5); otherwise it is constant."""
    target_entropy_per_action: float = -1.0
    """Target entropy in nats for each continuous action, where `target_entropy` is null."""
    target_entropy: float | None = None
    """Target entropy in nats, for actions in units of half the distance between their bounds. null for
    `target_entropy_per_action` times the number of continuous actions, or for Discrete actions 0.98 of the uniform
    distribution's entropy over the allowed actions."""
    num_quantiles: PositiveInt | None = None
    """Number of quantiles of the return that each critic estimates by quantile regression (TQC, arXiv:2005.04269);
    null for its expectation. Continuous actions alone."""
    dropped_per_critic: NonNegativeInt = 0
    """Number of quantiles per critic that targets leave out: the largest ones of all target critics' together."""

    critic_dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Probability that a hidden unit of a critic, or of a target critic, is dropped in a loss (DroQ, arXiv:2110.02034);
    acting and evaluation drop none."""
    joint_targets: bool = False
    """Whether targets come from the critics themselves, in one pass with the values of the taken actions, and there are
    no target networks (CrossQ, arXiv:1902.05605). Continuous actions alone; `model.batch_renorm` needs it."""
    adam_beta_1: Annotated[float, Ge(0), Lt(1)] = 0.9
    """Decay rate of Adam's first moment, for all networks and the temperature."""
    weight_decay: NonNegativeFloat = 0.0
    """Decoupled weight decay of actor and critics (AdamW): each update subtracts lr * weight_decay of a parameter."""

    reset_interval: PositiveInt | None = None
    """Minibatches between two resets, in which all networks, the temperature and the optimizers begin again with new
    first weights and the replay buffer stays (arXiv:2205.07802); null for none."""

    @classmethod
    @override
    def shapes_parameters(cls, path: str) -> bool:
        return path == "num_quantiles" or super().shapes_parameters(path)

    @model_validator(mode="after")
    def _keeps_quantiles(self) -> SACConfig:
        if self.dropped_per_critic and self.dropped_per_critic >= (self.num_quantiles or 0):
            raise ValueError(
                f"dropped_per_critic ({self.dropped_per_critic}) must be below num_quantiles ({self.num_quantiles})"
            )
        if self.num_quantiles is not None and self.num_target_critics is not None:
            raise ValueError("num_quantiles: targets pool the quantiles of all critics; leave num_target_critics null")
        if self.num_quantiles is not None and self.joint_targets:
            raise ValueError("num_quantiles and joint_targets exclude each other: quantiles have target networks")
        return self

    @model_validator(mode="after")
    def _has_networks_for_its_updates(self) -> SACConfig:
        model = self.model
        if model.batch_renorm and not self.joint_targets:
            raise ValueError("model.batch_renorm needs joint_targets: target networks have no statistics of their own")
        if self.joint_targets and model.core is not None:
            raise ValueError("joint_targets: recurrent networks have target networks; leave model.core null")
        if self.critic_dropout and (model.core is not None or model.residual):
            raise ValueError("critic_dropout: plain dense layers alone drop units; leave model.core and residual out")
        return self


class SAC(Algorithm[SACConfig]):
    """Soft Actor-Critic: maximum-entropy actor-critic with twin Q functions and a learned temperature.

    Actions are a bounded Box, or Discrete (Christodoulou, arXiv:1910.07207): expectations over discrete actions are
    exact sums in the same losses.
    """

    Config: ClassVar[type[SACConfig]] = SACConfig
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
    def has_target_network(self) -> bool:
        return not self.config.joint_targets

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Objectives of the learner, in this order: critics, actor and temperature."""
        config = self.config
        every, bound = config.policy_delay, config.max_grad_norm
        adam = Adam(beta_1=config.adam_beta_1)
        optimizer = AdamW(config.weight_decay, beta_1=config.adam_beta_1) if config.weight_decay else adam
        objectives = [
            replace(each, optimizer=optimizer, assigns=running_statistics(policy.parameters, each.parameters))
            for each in critics_and_actor(self.critics_loss, self.actor_loss, policy_delay=every, max_grad_norm=bound)
        ]
        if config.learn_alpha:
            alpha = Objective("alpha", self.alpha_loss, lr="alpha_lr", parameters="log_alpha", every=every)
            objectives.append(replace(alpha, optimizer=adam, needs=("actor",)))
        return objectives

    def critics_loss(self, outputs: SoftNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Soft Bellman residual: half the squared soft TD error of all critics (arXiv:1812.05905, eq. 5), [S, L].

        With `num_quantiles` it is the quantile Huber loss of the soft TD errors (arXiv:2005.04269, eq. 12).
        """
        valid = batch["valid"].float()
        values, ahead = outputs.values_and_next(batch)
        soft_values = ahead.values - outputs.log_alpha.detach().exp() * ahead.log_probs
        targets = batch["rewards"] + batch["discounts"] * soft_values
        residuals = outputs.residuals(values, targets)
        loss = masked_mean(residuals.losses * batch["weights"], valid)
        return replace(loss_of_critics(loss, residuals.values, residuals.errors, valid), assign=ahead.moved)

    def actor_loss(self, outputs: SoftNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Actor loss: E[alpha log pi(a given s) - min Q(s, a)] (arXiv:1812.05905, eq. 7); see `actor_objective`."""
        valid = batch["valid"].float()
        present = outputs.sample_and_evaluate(batch, self.config.actor_objective)
        loss = masked_mean(outputs.log_alpha.detach().exp() * present.log_probs - present.values, valid)
        statistics = {"loss": loss, "entropy": -masked_mean(present.log_probs.detach(), valid)}
        statistics |= self.actor_statistics(present, batch)
        return Loss(loss, statistics, carry={"log_probs": present.log_probs}, assign=present.moved)

    def actor_statistics(self, present: Soft, batch: SampleBatch) -> dict[str, Tensor]:
        """Further statistics of the actor's loss by name, each []."""
        return {}

    def alpha_loss(self, outputs: SoftNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Temperature loss: -log_alpha (log pi + target entropy) (arXiv:1812.05905, eq. 18).

        As is usual, it is linear in log_alpha instead of alpha.
        """
        asked = self.config.target_entropy
        target = outputs.target_entropy(batch) if asked is None else asked
        surplus = masked_mean(-batch["actor/log_probs"], batch["valid"].float()) - target
        loss = (outputs.log_alpha * surplus).sum()
        return Loss(loss, {"loss": loss, "alpha": outputs.log_alpha.detach().exp().sum()})

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Dataflow: stores fragments, trains on `training_intensity` minibatches per env step, sends weights."""
        config = self.config
        replay = trainee.make_replay(
            config.replay, n_step=config.n_step, gamma=config.gamma, sequences=config.model.core is not None
        )
        updates = replay_updates(replay, trainee, config, has_target=self.has_target_network)
        if config.reset_interval is not None:
            updates = updates.for_each(ResetNetworks(trainee, self.policy, config.reset_interval))
        return (
            fragments.zip_with_worker()
            .for_each(StoreToReplay(replay))
            .followed_by(updates)
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )
