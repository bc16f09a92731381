"""TD3+BC: TD3 whose actor also imitates the recorded actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from typing_extensions import override

from rlrun.algorithms.actor_q.ddpg import TD3, DDPGConfig
from rlrun.algorithms.offline.replay_or_data import ReplayOrData
from rlrun.algorithms.offline.support import ACTOR_SUPPORT, support_statistics
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.input_config import DataSettings
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss
from rlrun.engine.nn.model_config import ActionValueModelConfig
from rlrun.engine.settings.config import NonNegativeFloat, PositiveFloat, defaults, fixed
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.actor_q.networks import DeterministicNetworks


@defaults(
    lr=3e-4,
    critic_lr=3e-4,
    learning_starts=0,
    num_critics=2,
    policy_delay=2,
    target_update_interval=2,
    target_noise=0.2,
)
@fixed("minibatches of a data set are processed in one process", num_learners=0)
class TD3BCConfig(DataSettings, DDPGConfig):
    """Settings of TD3+BC (Fujimoto and Gu, arXiv:2106.06860).

    For ReBRAC (Tarasov et al., arXiv:2305.09836), set `critic_penalty` above 0, `model.critic_normalization: layer`,
    three hidden layers and large minibatches; ReBRAC's `beta_1` equals 1 / (`value_weight` times the number of action
    coordinates).
    """

    model: ActionValueModelConfig = ActionValueModelConfig(hiddens=(256, 256), activation="relu", orthogonal_init=False)
    """Network architecture of the actor and of each critic."""
    value_weight: PositiveFloat = 2.5
    """Weight alpha of the normalized values relative to the squared distance to recorded actions; smaller weights
    imitate more."""
    critic_penalty: NonNegativeFloat = 0.0
    """Weight of the squared distance between the target actor's next action and the recorded one, subtracted from the
    next value (ReBRAC's beta_2); for data alone, since a replay buffer holds no next actions."""

    @property
    @override
    def further_columns(self) -> tuple[str, ...]:
        return ("next_actions",) if self.critic_penalty else ()


class TD3BC(ReplayOrData, TD3):
    """TD3 with a penalty on the squared distance between the actor's and the recorded actions (arXiv:2106.06860)."""

    Config = TD3BCConfig
    config: TD3BCConfig
    learner_metrics = (
        *TD3.learner_metrics,
        Metric("actor/distance", "", "Mean squared distance between the actor's actions and the recorded ones"),
        *(metric.below("actor/") for metric in ACTOR_SUPPORT),
    )

    @override
    def next_values(self, outputs: DeterministicNetworks, batch: SampleBatch) -> Tensor:
        """Target critics' values [S, L], minus a penalty for unrecorded next actions (arXiv:2305.09836, eq. 5).

        The penalty is `critic_penalty` times the squared distance between the target actor's and the recorded next
        actions.
        """
        if not self.config.critic_penalty:
            return super().next_values(outputs, batch)
        actions = self.next_actions(outputs, batch)
        values = outputs.target_minimum(outputs.target_values(outputs.following(batch), actions), batch)
        distances: Tensor = (actions - batch["next_actions"]).square().sum(-1) * batch["next_valid"].float()
        return values - self.config.critic_penalty * distances

    @override
    def actor_loss(self, outputs: DeterministicNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Actor loss: squared distance to recorded actions minus lambda Q(s, pi(s)) (arXiv:2106.06860, eqs. 3 and 5).

        lambda is alpha / mean of |Q(s, pi(s))|, without a gradient.
        """
        valid = batch["valid"].float()
        observations = outputs.present(batch)
        actions = outputs.actions(observations)
        values = outputs.actor_values(self.config.actor_objective, observations, actions).squeeze(-1)
        scale = self.config.value_weight / masked_mean(values.detach().abs(), valid).clamp(min=1e-6)
        distance = masked_mean((actions - batch["actions"]).square().mean(-1), valid)
        loss = distance - scale * masked_mean(values, valid)
        support = support_statistics(values, actions, batch["actions"], valid)
        return Loss(loss, {"loss": loss, "distance": distance, **support})
