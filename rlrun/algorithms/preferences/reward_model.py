"""Reward model: scores of episodes, learned from preferences between pairs of episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from rlrun.algorithms.loss_metrics import GRAD_NORM
from rlrun.algorithms.preferences.comparisons import Comparisons
from rlrun.algorithms.preferences.settings import RewardModelConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.input_sets import opened
from rlrun.engine.flow.flow import Flow, Operator
from rlrun.engine.flow.operators.data import TrainOnData
from rlrun.engine.flow.sources.data_minibatches import data_minibatches
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.preferences.policy import RewardModelOutputs
    from rlrun.engine.policy.policy import Policy


class RewardModel(Algorithm[RewardModelConfig]):
    """Reward model: maximum likelihood of preferences between two episodes under the Bradley-Terry model.

    Only the reward model is trained, not the policy; a later stage of training can use the scores as rewards.

    Source:
        Christiano et al., "Deep reinforcement learning from human preferences", arXiv:1706.03741, section 2.2.3, with
        scores of whole episodes as in Ouyang et al., arXiv:2203.02155, eq. 1.
    """

    Config = RewardModelConfig
    policy_family = "rlrun.algorithms.preferences.policy:RewardModelPolicy"
    clock_unit = "sgd_steps"
    learns_in_worlds = False
    learner_metrics = (
        Metric("loss", "nats", "Cross-entropy of the preferences; 0.69 for random guesses", mode="min"),
        Metric("accuracy", "", "Fraction of training pairs whose preferred episode has the higher score", mode="max"),
        GRAD_NORM,
    )

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        return MeasureHeldOut.declared_metrics

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        bound = self.config.max_grad_norm
        return [Objective("loss", self.loss, parameters="reward_model.", max_grad_norm=bound, is_main=True)]

    @override
    def loss(self, outputs: RewardModelOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Mean of -log sigmoid((score of preferred - score of other) / temperature) over S comparisons of episodes."""
        from torch.nn.functional import softplus

        margins, is_pair = outputs.score_margins(), batch["valid"][:, 0].float()
        loss = masked_mean(softplus(-margins / self.config.temperature), is_pair)
        return Loss(loss, {"loss": loss, "accuracy": masked_mean((margins > 0).float(), is_pair)})

    @override
    def collect(self, trainee: Trainee) -> Flow[Any]:
        """Creates the stream of minibatches of comparisons between two recorded episodes."""
        return data_minibatches(trainee, self.config, _view(trainee, self.config))

    @override
    def learn(self, items: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that takes an SGD step on each minibatch of comparisons.

        After each iteration, the dataflow measures the accuracy on held-out pairs.
        """
        return items.for_each(TrainOnData(trainee)).for_each(MeasureHeldOut(trainee, self.config))


def _view(trainee: Trainee, config: RewardModelConfig) -> partial[Comparisons]:
    return partial(
        Comparisons,
        pairs=config.pairs,
        held_out=config.held_out_pairs,
        length=config.seq_len,
        temperature=config.temperature,
        seed=child_seed(trainee.seed, "preferences"),
    )


class MeasureHeldOut(Operator):
    """Measures the reward model's accuracy on held-out pairs, at the end of each iteration.

    Args:
        trainee: The policy in training, with a `RewardModelPolicy`.
        config: Settings: the data sets, and the number of pairs.
    """

    def __init__(self, trainee: Trainee, config: RewardModelConfig) -> None:
        self.trainee = trainee
        self.config = config
        self._pairs: list[SampleBatch] | None = None

    @override
    def settings(self) -> dict[str, Any]:
        return {"held_out_pairs": self.config.held_out_pairs}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        return item

    declared_metrics = (
        Metric(
            "held_out_accuracy",
            "",
            "Fraction of held-out pairs whose preferred episode has the higher score",
            mode="max",
        ),
    )

    @override
    def metrics(self) -> dict[str, float]:
        """Returns the accuracy on held-out pairs as a metric; empty if there are no held-out pairs."""
        from rlrun.algorithms.preferences.policy import score_margins

        if not self.config.held_out_pairs:
            return {}
        if self._pairs is None:
            view = _view(self.trainee, self.config)
            sets = [view(opened(part), is_held_out=True) for part in self.config.input or ()]
            self._pairs = [pairs.gather(np.arange(len(pairs))) for pairs in sets]
        margins = [self.trainee.learner.evaluate(score_margins, pairs) for pairs in self._pairs]
        return {"held_out_accuracy": float(np.mean(np.concatenate(margins) > 0))}
