"""DQN: Q-learning with a replay and a target network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from rlrun.algorithm import Algorithm
from rlrun.config import Schedule
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow
from rlrun.flow.operators import LearnResult
from rlrun.functional.masked import masked_mean
from rlrun.learner.objective import Loss
from rlrun.nn.model_config import ModelConfig
from rlrun.off_policy import OffPolicyConfig, learn_from_replay, replay_of
from rlrun.rollout.worker_set import WorkerSet

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.policy.q import QNetworks


class DQNConfig(OffPolicyConfig):
    """Settings of DQN (Mnih et al., "Human-level control through deep reinforcement learning", 2015)."""

    lr: Schedule = 5e-4
    """Learning rate."""
    model: ModelConfig = ModelConfig(activation="relu", orthogonal_init=False)
    """The network."""
    target_update_interval: int = 250
    """Minibatches between two updates of the target network."""
    epsilon: Schedule = ((0, 1.0), (10_000, 0.05))
    """Probability of an action that is drawn from all alike."""
    double: bool = True
    """Whether the network says which action is best in the next observation and the target network only what it is
    worth (van Hasselt et al., arXiv:1509.06461)."""


class DQN(Algorithm[DQNConfig]):
    """Put every fragment by, and learn from minibatches of what was put by."""

    Config = DQNConfig
    policy_family = "q"
    has_target_network = True
    learner_metrics: ClassVar[tuple[str, ...]] = ("loss", "q_mean", "td_error", "grad_norm")

    def loss(self, outputs: QNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Huber loss of the temporal difference over rows [S, 1] (the 2015 paper's clipped error)."""
        valid = batch["valid"].float()
        values = outputs.values(batch["obs"]).gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
        next_values = outputs.target_values(batch["next_obs"])
        best = (outputs.values(batch["next_obs"]).detach() if self.config.double else next_values).argmax(-1)
        targets = batch["rewards"] + batch["discounts"] * next_values.gather(-1, best.unsqueeze(-1)).squeeze(-1)
        errors = values - targets
        distance = errors.abs()
        huber = errors.square().clamp(max=1.0) * 0.5 + (distance - 1.0).clamp(min=0.0)
        loss = masked_mean(huber * batch["weights"], valid)
        statistics = {"loss": loss, "q_mean": masked_mean(values, valid), "td_error": masked_mean(distance, valid)}
        return Loss(loss, statistics, priorities=distance.squeeze(-1))

    def learn(self, rollouts: Flow[SampleBatch], workers: WorkerSet) -> Flow[LearnResult]:
        """Fragments into the replay, as many minibatches out of it as are due, new weights."""
        replay = replay_of(self.config, workers, self.seed)
        return learn_from_replay(rollouts, workers, self.learner, replay, self.config)
