"""A custom off-policy algorithm with a custom exploration: Munchausen DQN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlrun.plugin import (
    REPLAY_METRICS,
    TD_METRICS,
    Algorithm,
    BroadcastWeights,
    Flow,
    Fraction,
    ImportPath,
    Loss,
    OffPolicyConfig,
    PositiveFloat,
    QModelConfig,
    QSettings,
    SampleBatch,
    Schedule,
    StoreToReplay,
    Trainee,
    defaults,
    fixed,
    gather_actions,
    huber,
    masked_mean,
    replay_updates,
    td_statistics,
)

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.plugin import QNetworks


@defaults(lr=5e-4, target_update_interval=250)
@fixed("the bonus covers a single step between two observations", n_step=1)
@fixed(
    "the replay buffer stores observations unnormalized", normalize_observations=False
)
class MunchausenConfig(OffPolicyConfig):
    """Settings of Munchausen DQN."""

    model: QModelConfig = QModelConfig(activation="relu", orthogonal_init=False)
    """The network."""
    exploration: ImportPath = "my_lab.ez_greedy:EZGreedy"
    """How actions are chosen in training."""
    epsilon: Schedule = ((0, 1.0), (10_000, 0.05))
    """Probability that a step begins to repeat a uniformly drawn action."""
    temperature: PositiveFloat = 0.03
    """What values are divided by in the softmax policy; the weight of its entropy."""
    bonus: Fraction = 0.9
    """Weight of the taken action's log-probability, which is added to the reward."""
    min_log_prob: float = -1.0
    """Lower bound of the log-probability times the temperature."""

    @property
    def q(self) -> QSettings:
        """Settings of the Q policy."""
        return QSettings(exploration=self.exploration)


class Munchausen(Algorithm[MunchausenConfig]):
    """Q-learning with the action's log-probability in the reward (arXiv:2007.14430)."""

    Config = MunchausenConfig
    policy_family = "rlrun.plugin:QPolicy"
    has_target_network = True
    learner_metrics = TD_METRICS
    operator_metrics = REPLAY_METRICS

    def loss(
        self, outputs: QNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]
    ) -> Loss:
        """Huber loss of the TD error with bonus and soft next value (eq. 1), [S, 1]."""
        config, valid, temperature = (
            self.config,
            batch["valid"].float(),
            self.config.temperature,
        )
        values = gather_actions(
            outputs.q_outputs(batch["obs"]), batch["actions"]
        ).squeeze(-1)
        log_policy = (outputs.target_values(batch["obs"]) / temperature).log_softmax(-1)
        log_probs = gather_actions(log_policy.unsqueeze(-1), batch["actions"]).squeeze(
            -1
        )
        bonus = config.bonus * (temperature * log_probs).clamp(config.min_log_prob, 0.0)
        soft_values = temperature * (
            outputs.target_values(batch["next_obs"]) / temperature
        ).logsumexp(-1)
        td_errors = values - (
            batch["rewards"] + bonus + batch["discounts"] * soft_values
        )
        loss = masked_mean(huber(td_errors, 1.0) * batch["weights"], valid)
        distances = td_errors.abs()
        return Loss(
            loss,
            td_statistics(loss, values, distances, valid),
            priorities=distances.squeeze(-1),
        )

    def learn(self, items: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Stores fragments, trains on minibatches, and broadcasts the weights."""
        config = self.config
        replay = trainee.make_replay(
            config.replay, n_step=config.n_step, gamma=config.gamma
        )
        stored = items.zip_with_worker().for_each(StoreToReplay(replay))
        updates = replay_updates(replay, trainee, config)
        return stored.followed_by(updates).for_each(BroadcastWeights(trainee))
