"""BCQ: batch-constrained Q-learning with Discrete actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Gt, Le
from typing_extensions import override

from rlrun.algorithms.actor_q.objectives import loss_of_critics
from rlrun.algorithms.loss_metrics import GRAD_NORM
from rlrun.algorithms.offline.replay_or_data import ReplayOrData
from rlrun.algorithms.settings.off_policy import (
    ActorCriticSettings,
    CriticEnsembleSettings,
    OffPolicyConfig,
    actor_critic_defaults,
)
from rlrun.algorithms.td_loss import HUBER_METRICS, HuberSettings, huber, huber_excess
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.input_config import DataSettings
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.nn.model_config import ActionValueModelConfig
from rlrun.engine.settings.config import ImportPath, PositiveInt, Schedule, defaults, fixed
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.offline.greedy_networks import GreedyNetworks
    from rlrun.engine.policy.policy import Policy


@fixed("bcq has no actor", actor_objective="first", policy_delay=1)
@defaults(huber=1.0, num_critics=1, critic_lr=3e-4, learning_starts=0)
@actor_critic_defaults
@fixed("minibatches of a data set are processed in one process", num_learners=0)
class BCQConfig(HuberSettings, DataSettings, CriticEnsembleSettings, ActorCriticSettings, OffPolicyConfig):
    """Settings of BCQ for Discrete actions (Fujimoto et al., arXiv:1910.01708)."""

    model: ActionValueModelConfig = ActionValueModelConfig(hiddens=(256, 256), activation="relu", orthogonal_init=False)
    """Network architecture of each critic and of the behavior policy."""
    lr: Schedule = 3e-4
    """Learning rate of the behavior policy."""
    minibatch_size: PositiveInt = 256
    """Transitions per minibatch."""
    exploration: Literal["sampled"] | ImportPath = "sampled"
    """Exploration in training: `sampled` samples from a softmax of the likely actions' values; `package.module:Class`
    is a custom exploration."""
    threshold: Annotated[float, Gt(0), Le(1)] = 0.3
    """Threshold tau: actions are chosen among those whose probability under the behavior policy is at least this
    fraction of the largest one; 1 is pure imitation."""


class BCQ(ReplayOrData):
    """Batch-constrained Q-learning: Q-learning over the actions that a learned behavior policy considers likely.

    Actions are Discrete (arXiv:1910.01708).
    """

    Config = BCQConfig
    acts_in = ("Discrete",)
    config: BCQConfig
    policy_family = "rlrun.algorithms.offline.greedy_policy:batch_constrained_policy"
    has_target_network = True
    learner_metrics = (
        *(metric.below("critics/") for metric in HUBER_METRICS),
        Metric(
            "behavior/loss",
            "nats",
            "Negative log-likelihood of the recorded actions under the behavior policy",
            mode="min",
        ),
        GRAD_NORM.below("behavior/"),
    )

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Objectives of the learner, in this order: behavior policy, then critics."""
        bound = self.config.max_grad_norm
        return [
            Objective("behavior", self.behavior_loss, parameters="behavior.", max_grad_norm=bound),
            Objective("critics", self.critics_loss, lr="critic_lr", parameters="critics.", max_grad_norm=bound),
        ]

    def behavior_loss(self, outputs: GreedyNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Negative log-likelihood of the recorded actions under the behavior policy, over S sequences of L steps."""
        from rlrun.algorithms.actor_q.networks import taken

        log_probs = taken(outputs.behavior_log_probs(outputs.present(batch)), batch["actions"])
        loss = -masked_mean(log_probs, batch["valid"].float())
        return Loss(loss, {"loss": loss})

    def critics_loss(self, outputs: GreedyNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Huber loss of the critics' TD errors over S sequences of L steps (arXiv:1910.01708, eqs. 17 and 18).

        The next action is the first critic's best one among those that the behavior policy considers likely.
        """
        bound, valid = self.config.huber, batch["valid"].float()
        values = outputs.values_of(batch)
        errors = values - (batch["rewards"] + batch["discounts"] * outputs.next_values(batch))
        loss = masked_mean(huber(errors, bound).sum(0) * batch["weights"], valid)
        beyond = huber_excess(errors.detach().abs().mean(0), valid, bound)
        return loss_of_critics(loss, values, errors, valid, beyond)
