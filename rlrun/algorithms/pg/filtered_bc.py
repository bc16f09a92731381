"""Filtered behavioral cloning: a policy imitates its own best episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from typing_extensions import override

from rlrun.algorithms.loss_metrics import ENTROPY, GRAD_NORM
from rlrun.algorithms.pg.complete_episodes import JoinEpisodes
from rlrun.algorithms.pg.pg import PG, PGConfig
from rlrun.algorithms.settings.on_policy import WHO_HAS_CONSTRAINTS, EpochsSettings
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow, Operator
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss
from rlrun.engine.settings.config import Fraction, defaults, fixed
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs


@fixed("the policy has no value network", use_baseline=False, vf_loss_coeff=0.0)
@fixed(WHO_HAS_CONSTRAINTS, constraint=None)
@fixed("all selected episodes have the same weight", standardize_advantages=False)
@defaults(gamma=1.0, lr=1e-3, num_epochs=3)
class FilteredBCConfig(EpochsSettings, PGConfig):
    """Settings of filtered behavioral cloning."""

    best_share: Fraction = 0.1
    """Share of each batch's episodes, those with the highest discounted returns, that are cloned."""

    @property
    @override
    def sgd_steps_per_env_step(self) -> float:
        return self.best_share * self.num_epochs / self.minibatch_size


class FilteredBC(PG):
    """Filtered behavioral cloning: maximum likelihood of the actions in each batch's best episodes."""

    Config: ClassVar[type[FilteredBCConfig]] = FilteredBCConfig
    config: FilteredBCConfig
    learner_metrics = (
        Metric("log_prob", "nats", "Mean log-probability of the best episodes' actions", mode="max"),
        ENTROPY,
        GRAD_NORM,
    )
    operator_metrics = ()

    @override
    def loss(self, outputs: ActorCriticOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Negative log-likelihood of the actions, minus the entropy bonus, over S sequences of L steps."""
        valid = batch["valid"].float()
        log_prob = masked_mean(outputs.distribution.log_prob(batch["actions"]), valid)
        entropy = masked_mean(outputs.distribution.entropy(), valid)
        return Loss(-log_prob - scheduled["entropy_coeff"] * entropy, {"log_prob": log_prob, "entropy": entropy})

    @override
    def learn(self, episodes: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that keeps the best episodes of each batch and runs epochs of SGD on their steps."""
        config = self.config
        return (
            episodes.combine(ConcatBatches(config.train_batch_size))
            .for_each(KeepBestEpisodes(config.best_share))
            .for_each(JoinEpisodes())
            .for_each(
                TrainOnBatch(
                    trainee,
                    num_epochs=config.num_epochs,
                    minibatch_size=config.minibatch_size,
                    seq_len=config.steps_in_row,
                )
            )
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )


class KeepBestEpisodes(Operator):
    """Keeps the steps of a batch's best episodes, whose returns are at or above the (1 - share)-quantile.

    Args:
        share: Share of the episodes to keep; more are kept if returns are equal.

    Source:
        Filtered behavioral cloning of Zhou et al., arXiv:2402.19446, section 5.
    """

    def __init__(self, share: float) -> None:
        self.share = share

    @override
    def settings(self) -> dict[str, Any]:
        return {"share": self.share}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Selects from episodes that follow each other in one row, [1, N], as [1, M].

        An episode's return is the value target of its first step.
        """
        ends = (item["terminateds"] | item["truncateds"])[0]
        number = np.concatenate([[0], np.cumsum(ends)[:-1]])  # each step's episode number
        firsts = np.concatenate([[True], ends[:-1]])
        returns = item["value_targets"][0][firsts]
        kept = returns >= np.quantile(returns, 1 - self.share)
        return item.map(lambda leaf: leaf[:, kept[number]])
