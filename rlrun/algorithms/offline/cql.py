"""CQL: conservative Q-learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from typing_extensions import override

from rlrun.algorithms.actor_q.objectives import loss_of_critics
from rlrun.algorithms.actor_q.sac import SAC, SACConfig
from rlrun.algorithms.loss_metrics import TD_METRICS
from rlrun.algorithms.offline.replay_or_data import ReplayOrData
from rlrun.algorithms.offline.settings import ConservativeModelConfig
from rlrun.algorithms.offline.support import ACTOR_SUPPORT, support_statistics
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.input_config import DataSettings
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.settings.config import NonNegativeFloat, PositiveInt, defaults, fixed
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.actor_q.soft_networks import Soft
    from rlrun.algorithms.offline.greedy_networks import ConservativeNetworks, GreedyNetworks
    from rlrun.engine.policy.policy import Policy


@defaults(lr=1e-4, critic_lr=3e-4, alpha_lr=1e-4, learning_starts=0)
@fixed("minibatches of a data set are processed in one process", num_learners=0)
class CQLConfig(DataSettings, SACConfig):
    """Settings of CQL (Kumar et al., arXiv:2006.04779)."""

    model: ConservativeModelConfig = ConservativeModelConfig(
        hiddens=(256, 256), activation="relu", orthogonal_init=False
    )
    """Network architecture of the actor and of each critic."""
    conservative_weight: NonNegativeFloat = 5.0
    """Weight alpha of the conservative regularizer; 0 for none."""
    num_sampled_actions: PositiveInt = 10
    """Number N of actions from each of three distributions that the regularizer samples; Discrete actions need none."""
    calibrated: bool = False
    """Calibrated values (Cal-QL, Nakamoto et al., arXiv:2303.05479): in the regularizer, values of the actor's actions
    are at least the return of the recorded episode from that step on. Requires that the algorithm learns from data
    alone, with Box actions, and that episodes terminate or rewards are positive."""

    @property
    @override
    def further_columns(self) -> tuple[str, ...]:
        return ("returns",) if self.calibrated else ()


class CQL(ReplayOrData, SAC):
    """Conservative Q-learning: lowers the values of actions that are not in the data.

    For a bounded Box, this is SAC with a regularizer. For Discrete actions, it is Q-learning with the regularizer and
    without an actor; exploration samples from a softmax of the values (arXiv:2006.04779).
    """

    Config = CQLConfig
    config: CQLConfig
    policy_family = "rlrun.algorithms.offline.greedy_policy:conservative_policy"
    learner_metrics = (
        *TD_METRICS,
        Metric("gap", "", "Mean soft maximum of the values, minus the value of the recorded action"),
        *(metric for metric in SAC.learner_metrics if not metric.name.startswith("critics/")),
        *(metric.below("actor/") for metric in ACTOR_SUPPORT),
    )

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Objectives of the learner: critics, actor and temperature; for Discrete actions only the critics."""
        critics, *others = super().objectives(policy)
        has_actor = any(slot.name.startswith("actor.") for slot in policy.parameters.slots)
        return [replace(critics, is_main=True), *(others if has_actor else ())]

    @override
    def actor_statistics(self, present: Soft, batch: SampleBatch) -> dict[str, Tensor]:
        if present.actions is None:
            return {}
        return support_statistics(present.values, present.actions, batch["actions"], batch["valid"].float())

    @override
    def critics_loss(
        self,
        outputs: ConservativeNetworks | GreedyNetworks,  # type: ignore[override]  # not SAC's networks
        batch: SampleBatch,
        scheduled: Mapping[str, Tensor],
    ) -> Loss:
        """Half the squared TD error, plus a penalty on values of unrecorded actions (arXiv:2006.04779, eq. 4).

        The penalty is the soft maximum of the values over actions, minus the value of the recorded action. TD targets
        have no entropy bonus. The loss is over S sequences of L steps.
        """
        valid = batch["valid"].float()
        values = outputs.values_of(batch)
        errors = values - (batch["rewards"] + batch["discounts"] * outputs.next_values(batch))
        gaps = outputs.soft_maximum(batch) - values
        losses = 0.5 * errors.square() + self.config.conservative_weight * gaps
        loss = masked_mean(losses.sum(0) * batch["weights"], valid)
        gap = masked_mean(gaps.detach().mean(0), valid)
        return loss_of_critics(loss, values, errors, valid, {"gap": gap})
