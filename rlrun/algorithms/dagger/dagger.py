"""DAgger: dataset aggregation, imitation of an expert that can be queried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.algorithms.dagger.settings import EXPERT_ACTIONS, DAggerConfig
from rlrun.algorithms.loss_metrics import GRAD_NORM
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.minibatches import TrainOnMinibatch
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.recipes.replay_updates import REPLAY_METRICS
from rlrun.engine.flow.sources.replay_minibatches import replay_minibatches
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.stochastic_actor import StochasticActorOutputs


class DAgger(Algorithm[DAggerConfig]):
    """Dataset aggregation: supervised learning of the expert's actions in the states that the learner visits.

    Source:
        Ross, Gordon and Bagnell, "A reduction of imitation learning and structured prediction to no-regret online
        learning", arXiv:1011.0686, algorithm 3.1.
    """

    Config = DAggerConfig
    policy_family = "rlrun.algorithms.dagger.distilling:DAggerPolicy"
    learns_in_worlds = False
    learner_metrics = (
        Metric("log_prob", "nats", "Mean log-probability of the expert's actions", mode="max"),
        GRAD_NORM,
    )
    operator_metrics = REPLAY_METRICS

    @override
    def loss(self, outputs: StochasticActorOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Negative log-likelihood of the expert's actions over a minibatch of S steps."""
        log_prob = masked_mean(outputs.distribution.log_prob(batch["actions"]), batch["valid"].float())
        return Loss(-log_prob, {"log_prob": log_prob})

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that stores steps labeled by the expert and trains on minibatches of all stored steps."""
        config = self.config
        replay = trainee.make_replay(config.replay, n_step=1, gamma=config.gamma)
        minibatches = replay_minibatches(
            replay,
            trainee,
            minibatch_size=config.minibatch_size,
            training_intensity=config.training_intensity,
            learning_starts=config.learning_starts,
            normalize_observations=config.normalize_observations,
        )
        return (
            fragments.for_each(labelled)
            .zip_with_worker()
            .for_each(StoreToReplay(replay))
            .followed_by(minibatches.for_each(TrainOnMinibatch(trainee)))
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )


def labelled(fragment: SampleBatch) -> SampleBatch:
    """Returns a copy of a rollout fragment, in which the expert's actions replace the actions that were taken."""
    rest = {name: column for name, column in fragment.items() if name != EXPERT_ACTIONS}
    return SampleBatch(rest, actions=fragment[EXPERT_ACTIONS])
