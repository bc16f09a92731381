"""Advantage-weighted regression: actors that imitate recorded actions, with larger weights for better actions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from typing_extensions import override

from rlrun.algorithms.actor_q.objectives import critics_and_actor, loss_of_critics
from rlrun.algorithms.loss_metrics import GRAD_NORM, TD_METRICS
from rlrun.algorithms.offline.replay_or_data import ReplayOrData
from rlrun.algorithms.offline.settings import RegressedModelConfig
from rlrun.algorithms.settings.off_policy import (
    ActorCriticSettings,
    CriticEnsembleSettings,
    OffPolicyConfig,
    actor_critic_defaults,
)
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.input_config import DataSettings
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.settings.config import ImportPath, NonNegativeFloat, PositiveFloat, PositiveInt, defaults, fixed
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.offline.regressed_networks import RegressedNetworks
    from rlrun.engine.policy.policy import Policy


TINY = 1e-30
"""Smallest divisor."""


@defaults(critic_lr=3e-4, learning_starts=0)
@actor_critic_defaults
@fixed("minibatches of a data set are processed in one process", num_learners=0)
class WeightedRegressionConfig(DataSettings, CriticEnsembleSettings, ActorCriticSettings, OffPolicyConfig):
    """Settings of an actor that imitates recorded actions, weighted by their advantages."""

    learns_values: ClassVar[bool] = False
    """Whether the policy has a state-value network, `value`."""
    model: RegressedModelConfig = RegressedModelConfig(hiddens=(256, 256), activation="relu", orthogonal_init=False)
    """Network architecture of the actor and of each critic."""
    minibatch_size: PositiveInt = 256
    """Transitions per minibatch."""
    exploration: Literal["sampled"] | ImportPath = "sampled"
    """Exploration in training: `sampled` samples actions from the actor's distribution; `package.module:Class` is a
    custom exploration."""
    beta: NonNegativeFloat = 1.0
    """Inverse temperature of the weights exp(beta * advantage); 0 imitates all actions alike."""
    max_weight: PositiveFloat = 100.0
    """Largest weight of a recorded action."""

    @property
    def num_noises(self) -> int:
        """Number of actions that the losses sample at each observation."""
        return 0


class WeightedRegression(ReplayOrData):
    """Actor-critic whose actor imitates recorded actions, weighted by the exponential of their advantages."""

    config: WeightedRegressionConfig
    acts_in = ("bounded Box", "Discrete")
    policy_family = "rlrun.algorithms.offline.regressed_policy:RegressedPolicy"
    has_target_network = True
    learner_metrics = (
        *(metric.below("critics/") for metric in TD_METRICS),
        Metric("actor/loss", "", "Loss of the actor"),
        Metric("actor/weight", "", "Mean weight of a recorded action"),
        Metric("actor/clipped", "", "Fraction of recorded actions with the maximum weight, max_weight"),
        Metric("actor/effective", "", "Effective fraction of the minibatch: squared mean weight / mean squared weight"),
        GRAD_NORM.below("actor/"),
    )

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Objectives of the learner, in this order: critics and actor."""
        every, bound = self.config.policy_delay, self.config.max_grad_norm
        return critics_and_actor(self.critics_loss, self.actor_loss, policy_delay=every, max_grad_norm=bound)

    @abstractmethod
    def next_values(self, outputs: RegressedNetworks, batch: SampleBatch) -> Tensor:
        """State values of the next observations for the critics' targets, [rows, steps]."""

    @abstractmethod
    def advantages(self, outputs: RegressedNetworks, batch: SampleBatch) -> Tensor:
        """Advantages of the recorded actions, [rows, steps], without gradients."""

    def weights_of(self, advantages: Tensor) -> Tensor:
        """Weights of the recorded actions in the actor's loss, [S, L]: exp(beta * advantage), up to a maximum."""
        return (advantages * self.config.beta).exp().clamp(max=self.config.max_weight)

    def critics_loss(self, outputs: RegressedNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Mean squared TD error of recorded actions over S sequences of L steps, summed over the critics."""
        valid = batch["valid"].float()
        values = outputs.values_of(batch)
        targets = batch["rewards"] + batch["discounts"] * self.next_values(outputs, batch).detach()
        errors = values - targets
        loss = masked_mean(errors.square().sum(0) * batch["weights"], valid)
        return loss_of_critics(loss, values, errors, valid)

    def actor_loss(self, outputs: RegressedNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Weighted negative log-likelihood of recorded actions (arXiv:2006.09359, eq. 13)."""
        valid = batch["valid"].float()
        weights = self.weights_of(self.advantages(outputs, batch)).detach()
        loss = -masked_mean(weights * outputs.log_probs(batch), valid)
        mean = masked_mean(weights, valid)
        statistics = {
            "loss": loss,
            "weight": mean,
            "clipped": masked_mean((weights >= self.config.max_weight).float(), valid),
            "effective": mean.square() / masked_mean(weights.square(), valid).clamp(min=TINY),
        }
        return Loss(loss, statistics)
