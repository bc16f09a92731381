"""PQN: Q-learning from parallel envs, without a replay buffer or a target network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from typing_extensions import override

from rlrun.algorithms.dqn.q_settings import QSettings
from rlrun.algorithms.loss_metrics import td_statistics
from rlrun.algorithms.settings.on_policy import (
    WHO_HAS_CURIOSITY,
    EpochsSettings,
    OnPolicyConfig,
    advantages_in_the_loss,
)
from rlrun.algorithms.td_loss import HUBER_METRICS, HuberSettings, huber, huber_excess
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.action_masks import FORBIDDEN
from rlrun.engine.data.packing import Packing
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow, Operator
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.functional.returns import gae
from rlrun.engine.learner.objective import Loss
from rlrun.engine.nn.model_config import WHO_IS_RECURRENT, QModelConfig
from rlrun.engine.settings.config import Fraction, ImportPath, Schedule, defaults, fixed

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.dqn.networks import QNetworks


@advantages_in_the_loss
@defaults(lr=5e-4, num_envs_per_worker=32, num_epochs=4, minibatch_size=128, max_grad_norm=10.0)
@fixed(WHO_HAS_CURIOSITY, curiosity=None)
@fixed(WHO_IS_RECURRENT, seq_len=16)
class PQNConfig(HuberSettings, EpochsSettings, OnPolicyConfig):
    """Settings of PQN (Gallici et al., arXiv:2407.04811)."""

    model: QModelConfig = QModelConfig(activation="relu", orthogonal_init=False, normalization="layer")
    """Network architecture; LayerNorm is what keeps values from diverging without a target network."""
    q_lambda: Fraction = 0.95
    """Lambda of the Q(lambda) targets, between one-step (0) and Monte Carlo (1) returns."""
    exploration: Literal["epsilon_greedy"] | ImportPath = "epsilon_greedy"
    """Exploration in training: epsilon-greedy, or a custom exploration `package.module:Class`."""
    epsilon: Schedule = ((0, 1.0), (100_000, 0.05))
    """Probability of a uniformly random action."""

    @property
    def q(self) -> QSettings:
        """Settings of the Q policy, which records the values of all actions for the targets."""
        return QSettings(exploration=self.exploration, records_values=True)


class PQN(Algorithm[PQNConfig]):
    """Parallelised Q-network: Q(lambda) with LayerNorm, over epochs of minibatch SGD (arXiv:2407.04811)."""

    Config: ClassVar[type[PQNConfig]] = PQNConfig
    acts_in = ("Discrete",)
    policy_family = "rlrun.algorithms.dqn.policy:QPolicy"
    learner_metrics = HUBER_METRICS

    @override
    def loss(self, outputs: QNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Squared error (or Huber loss) of Q values against Q(lambda) targets over S sequences of L steps."""
        valid = batch["valid"].float()
        values = outputs.values(batch["obs"]).gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
        errors, bound = values - batch["q_targets"], self.config.huber
        loss, distances = masked_mean(huber(errors, bound), valid), errors.detach().abs()
        statistics = td_statistics(loss, values.detach(), distances, valid)
        return Loss(loss, statistics | huber_excess(distances, valid, bound))

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that computes Q(lambda) targets in each rollout and runs epochs of SGD on each batch."""
        config = self.config
        return (
            fragments.for_each(QLambdaTargets(config.gamma, config.q_lambda))
            .combine(ConcatBatches(config.train_batch_size))
            .for_each(TrainOnBatch(trainee, num_epochs=config.num_epochs, minibatch_size=config.minibatch_size))
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )


class QLambdaTargets(Operator):
    """Replaces `q_values` [T + 1, B, A] of a rollout fragment with the lambda-returns of its steps, `q_targets` [T, B].

    G[t] = r[t] + gamma (lambda G[t + 1] + (1 - lambda) max over a of Q(s[t + 1], a)), with G = max Q after the last
    step. A truncated step bootstraps from max Q of its final observation, a terminated one from 0. Traces are not cut
    at exploratory actions. With V = max Q, G equals the value target of generalized advantage estimation.

    Args:
        gamma: Discount factor.
        q_lambda: Weight between one-step (0) and Monte Carlo (1) returns.

    Source:
        Gallici et al., arXiv:2407.04811, section 4 and algorithm 1; Peng and Williams, "Incremental multi-step
        Q-learning", 1994.
    """

    def __init__(self, gamma: float, q_lambda: float) -> None:
        self.gamma = gamma
        self.q_lambda = q_lambda

    @override
    def settings(self) -> dict[str, Any]:
        return {"gamma": self.gamma, "q_lambda": self.q_lambda}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the fragment with targets, which are 0 in invalid rows."""
        rows = Packing(item["valid"], item["terminateds"], item["truncateds"])
        rewards, terminateds = rows.pack(item["rewards"]), rows.pack(item["terminateds"])
        best = rows.pack(item["q_values"]).max(-1)
        # A final observation may allow no action; its value is then 0.
        best = np.where(best == FORBIDDEN, np.float32(0), best)
        _, targets = gae(rewards, best, terminateds, rows.truncateds, self.gamma, self.q_lambda)
        batch = SampleBatch({name: column for name, column in item.items() if name != "q_values"})
        batch["q_targets"] = np.where(item["valid"], rows.unpack(targets), np.float32(0))
        return batch
