"""Gorila: DQN with actors that learn, each from a replay of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from typing_extensions import override

from rlrun.algorithms.dqn.dqn import DQN, DQNConfig
from rlrun.algorithms.dqn.replayed_gradients import ComputeReplayedGradients
from rlrun.algorithms.settings.worker_gradients import WorkerGradientConfig
from rlrun.config import PositiveInt, defaults, fixed
from rlrun.flow.flow import Flow
from rlrun.flow.operators.gradients import ApplyGradients, Gradients
from rlrun.flow.operators.training import UpdateTargetNetwork
from rlrun.flow.operators.weights import MergeFilters, SendWeights
from rlrun.flow.trainee import Trainee
from rlrun.replay.replay import ReplayRatio
from rlrun.replay.replay_config import ReplayConfig


@fixed("gradients of the workers tell no priorities", prioritized=False, priority_alpha=0.6, priority_beta=0.4)
@fixed("gradients of the workers tell no priorities", priority_epsilon=1e-6)
class UniformReplayConfig(ReplayConfig):
    """A replay buffer from which every step is as likely to be sampled as any other."""


@defaults(double=False)
@fixed("workers learn from observations as they came", normalize_observations=False)
@fixed("gradients of the workers are without noise on parameters", noisy=False, noisy_sigma=0.5)
class GorilaConfig(DQNConfig, WorkerGradientConfig):
    """Settings of Gorila (Nair et al., arXiv:1507.04296) in its bundled form: actor, replay and learner in one process.

    The parameter server is the trial's process, with Adam where the paper has AdaGrad. `replay.capacity` and
    `learning_starts` are of all workers together. `double` is false because the paper is older than that.
    """

    replay: UniformReplayConfig = UniformReplayConfig()
    """The replay buffers."""
    gradients_in_flight: PositiveInt = 1
    """Fragments, and the gradients that they make due, that each worker is asked for ahead of time: with 1 it waits for
    new weights after each one; with 2 it goes on meanwhile, with older ones."""


class Gorila(DQN):
    """Workers put their fragments by and compute gradients of minibatches; each is applied as it arrives.

    With no worker but the local one it is DQN. `gradient_share/worker_<index>` is the part of an iteration's gradients
    that a worker delivered; `policy_lag_mean` counts gradients by which the parameters had moved on meanwhile.
    """

    Config = GorilaConfig
    config: GorilaConfig

    @override
    def on_worker(self, trainee: Trainee) -> Sequence[Callable[[Any], Any]]:
        """The gradients that a worker's fragment allows: a list, empty before learning starts."""
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
            ),
        )

    @override
    def collect(self, trainee: Trainee) -> Flow[Any]:
        """Lists of gradients of the workers' fragments, as they are ready."""
        in_flight = self.config.gradients_in_flight
        return trainee.workers.rollouts(*self.on_worker(trainee), mode="async", in_flight=in_flight)

    @override
    def learn(self, gradients: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """One step of SGD along each gradient, new weights and the target network's to whoever has delivered it."""
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
    """Returns the gradients of one fragment, one by one."""
    return gradients
