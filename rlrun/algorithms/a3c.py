"""A3C: asynchronous advantage actor-critic."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from rlrun.algorithms.a2c import A2C, A2CConfig
from rlrun.algorithms.loss_metrics import POLICY_GRADIENT_METRICS, value_statistics
from rlrun.algorithms.settings.on_policy import WHO_HAS_CONSTRAINTS, WHO_HAS_CURIOSITY
from rlrun.algorithms.settings.worker_gradients import WorkerGradientConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.advantages import ComputeAdvantages, Standardize
from rlrun.engine.flow.operators.gradients import ApplyGradients, ComputeGradients
from rlrun.engine.flow.operators.value_estimates import VALUE_METRICS
from rlrun.engine.flow.operators.weights import MergeFilters, SendWeights
from rlrun.engine.flow.sources.rollouts import RolloutMode
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.learner.objective import Loss
from rlrun.engine.settings.config import PositiveInt, defaults, fixed
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs


@fixed(WHO_HAS_CURIOSITY, curiosity=None)
@fixed(WHO_HAS_CONSTRAINTS, constraint=None)
@defaults(entropy_coeff=0.01)
class A3CConfig(A2CConfig, WorkerGradientConfig):
    """Settings of A3C (Mnih et al., arXiv:1602.01783).

    The optimizer is Adam with one state shared by all workers; the paper shares the state of RMSProp (section 4,
    "optimization"). The entropy coefficient (beta in section 4) defaults
    to the paper's value for Atari.
    """

    train_batch_size: PositiveInt = 80
    """Env steps of one fragment of every worker, summed over the workers; unused if rollout_fragment_length is set. The
    gradient of each worker's fragment is applied separately."""


class A3C(A2C):
    """Asynchronous advantage actor-critic: workers compute gradients, which are applied as they arrive.

    Without remote workers the algorithm is A2C. The metric `gradient_share/worker_<index>` is the fraction of an
    iteration's gradients that a worker delivered; `policy_lag_mean` is the mean number of updates between the
    computation of a gradient and its application.
    """

    Config = A3CConfig
    config: A3CConfig
    learner_metrics: ClassVar[tuple[Metric, ...]] = (*POLICY_GRADIENT_METRICS, *VALUE_METRICS)
    operator_metrics = ApplyGradients.declared_metrics

    @override
    def loss(self, outputs: ActorCriticOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Computes A2C's loss, and the value statistics that the learner cannot compute from gradients alone."""
        loss = super().loss(outputs, batch, scheduled)
        measured = value_statistics(outputs.values, batch["value_targets"], batch["valid"].float())
        return dataclasses.replace(loss, statistics={**loss.statistics, **measured})

    @override
    def on_worker(self, trainee: Trainee) -> Sequence[Callable[[Any], Any]]:
        """Operators that each worker applies to a fragment: compute advantages, then the gradient of the loss."""
        config = self.config
        standardize = (Standardize("advantages"),) if config.standardize_advantages else ()
        return (
            ComputeAdvantages(config.gamma, config.gae_lambda),
            *standardize,
            ComputeGradients(trainee.learner_factory, seq_len=config.steps_in_row),
        )

    @property
    @override
    def mode(self) -> RolloutMode:
        return "async"

    @override
    def collect(self, trainee: Trainee) -> Flow[Any]:
        """Creates the stream of gradients, which yields each gradient as soon as a worker has computed it."""
        in_flight = self.config.gradients_in_flight
        return trainee.workers.rollouts(*self.on_worker(trainee), mode=self.mode, in_flight=in_flight)

    @override
    def learn(self, gradients: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that applies each gradient and sends the new weights to the worker that computed it."""
        return (
            gradients.zip_with_worker()
            .for_each(ApplyGradients(trainee))
            .for_each(MergeFilters(trainee))
            .zip_with_worker()
            .for_each(SendWeights(trainee))
        )
