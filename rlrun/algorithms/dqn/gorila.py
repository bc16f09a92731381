"""Gorila: DQN with asynchronous workers that compute gradients from local replays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from typing_extensions import override

from rlrun.algorithms.dqn.dqn import DQN, DQNConfig
from rlrun.algorithms.dqn.replayed_gradients import ComputeReplayedGradients
from rlrun.algorithms.settings.worker_gradients import WorkerGradientConfig
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.gradients import ApplyGradients, Gradients
from rlrun.engine.flow.operators.minibatches import UpdateTargetNetwork
from rlrun.engine.flow.operators.weights import MergeFilters, SendWeights
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.replay.replay import ReplayRatio
from rlrun.engine.replay.replay_config import ReplayConfig
from rlrun.engine.settings.config import PositiveInt, defaults, fixed


@fixed("gradients of the workers come without priorities", sampling="uniform", priority_alpha=0.6, priority_beta=0.4)
@fixed("gradients of the workers come without priorities", priority_epsilon=1e-6)
class UniformReplayConfig(ReplayConfig):
    """Settings of a replay buffer with uniform sampling."""


@defaults(double=False)
@fixed("workers learn from observations as they came", normalize_observations=False)
@fixed("gradients of the workers are without noise on parameters", noisy=False, noisy_sigma=0.5)
class GorilaConfig(DQNConfig, WorkerGradientConfig):
    """Settings of Gorila (Nair et al., arXiv:1507.04296) in its bundled form: actor, replay and learner in one process.

    The parameter server is the trial's process, with Adam instead of the paper's AdaGrad. `replay.capacity` and
    `learning_starts` are totals over all workers. `double` is false, since the paper precedes Double DQN.
    """

    replay: UniformReplayConfig = UniformReplayConfig()
    """Settings of the workers' local replay buffers."""
    gradients_in_flight: PositiveInt = 1
    """Fragments in flight per worker, each followed by the gradients that are due after it. With 1 a worker waits for
    new weights after each fragment; with 2 it continues with older ones."""


class Gorila(DQN):
    """Massively parallel DQN: workers with local replays compute gradients, applied as they arrive (arXiv:1507.04296).

    Without remote workers the algorithm is DQN. `gradient_share/worker_<index>` is the fraction of an iteration's
    gradients that a worker delivered; `policy_lag_mean` is the mean number of updates between the computation of a
    gradient and its application.
    """

    Config = GorilaConfig
    config: GorilaConfig
    operator_metrics = ApplyGradients.declared_metrics

    @override
    def on_worker(self, trainee: Trainee) -> Sequence[Callable[[Any], Any]]:
        """Operators on workers: a list of the gradients due after each fragment, empty before learning starts."""
        config = self.config
        return (
            ComputeReplayedGradients(
                trainee.learner_factory,
                config.replay,
                num_workers=len(trainee.workers.indices),
                minibatch_size=config.minibatch_size,
                ratio=ReplayRatio(config.training_intensity, config.learning_starts),
                n_step=config.n_step,
                gamma=config.gamma,
                seed=trainee.seed,
                make_goals=trainee.make_goals,
            ),
        )

    @override
    def collect(self, trainee: Trainee) -> Flow[Any]:
        """Asynchronous stream of the workers' lists of gradients."""
        in_flight = self.config.gradients_in_flight
        return trainee.workers.rollouts(*self.on_worker(trainee), mode="async", in_flight=in_flight)

    @override
    def learn(self, gradients: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Applies each gradient, updates the target network, and sends both networks to the worker of the gradient."""
        return (
            gradients.combine(each_gradient)
            .zip_with_worker()
            .for_each(ApplyGradients(trainee))
            .for_each(UpdateTargetNetwork(trainee, self.config.target_update_interval, self.config.tau))
            .for_each(MergeFilters(trainee))
            .zip_with_worker()
            .for_each(SendWeights(trainee))
        )


def each_gradient(gradients: list[Gradients]) -> Iterable[Gradients]:
    """Yields the items of a list of gradients, so that they are applied one by one."""
    return gradients
