"""Gorila: DQN with asynchronous workers, each of which computes gradients from a local replay buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.algorithms.dqn.dqn import DQN, DQNConfig
from rlrun.algorithms.settings.worker_gradients import WorkerGradientConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow, StatefulOperator, WorkerOperator
from rlrun.engine.flow.operators.gradients import ApplyGradients, ComputeGradients, Gradients
from rlrun.engine.flow.operators.minibatches import UpdateTargetNetwork
from rlrun.engine.flow.operators.weights import MergeFilters, SendWeights
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.replay.replay import ReplayRatio
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_config import ReplayConfig
from rlrun.engine.settings.config import PositiveInt, defaults, fixed

if TYPE_CHECKING:
    from rlrun.engine.learner.learner import LearnerFactory
    from rlrun.engine.policy.weights import Weights
    from rlrun.engine.replay.hindsight import MakeGoals


UNIFORM = {"sampling": "uniform", "priority_alpha": 0.6, "priority_beta": 0.4, "priority_epsilon": 1e-6}
"""Settings of a replay buffer that is sampled uniformly."""


@defaults(double=False)
@fixed("gradients from workers carry no priorities", replay=UNIFORM)
@fixed("workers learn from unnormalized observations", normalize_observations=False)
@fixed("workers compute gradients without parameter noise", noisy=False, noisy_sigma=0.5)
class GorilaConfig(DQNConfig, WorkerGradientConfig):
    """Settings of Gorila (Nair et al., arXiv:1507.04296) in its bundled form: each worker acts, stores and learns.

    The main process of the training run is the parameter server, with Adam instead of the paper's AdaGrad.
    `replay.capacity` and `learning_starts` are totals over all workers. `double` is false, since the paper precedes
    Double DQN.
    """

    gradients_in_flight: PositiveInt = 1
    """Fragments in flight per worker, each followed by the gradients that are due after it. With 1 a worker waits for
    new weights after each fragment; with 2 it continues with older ones."""


class Gorila(DQN):
    """Massively parallel DQN: workers compute gradients from local replay buffers (arXiv:1507.04296).

    The gradients are applied as they arrive. Without remote workers the algorithm is DQN. The metric
    `gradient_share/worker_<index>` is the fraction of an iteration's gradients that a worker delivered;
    `policy_lag_mean` is the mean number of updates between the computation of a gradient and its application.
    """

    Config = GorilaConfig
    config: GorilaConfig
    operator_metrics = ApplyGradients.declared_metrics

    @override
    def on_worker(self, trainee: Trainee) -> Sequence[Callable[[Any], Any]]:
        """Operators that each worker runs: compute `training_intensity` gradients per env step from its replay buffer.

        Before learning starts, no gradients are computed.
        """
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
        """Creates the stream of the workers' lists of gradients, each yielded as soon as a worker has computed it."""
        in_flight = self.config.gradients_in_flight
        return trainee.workers.rollouts(*self.on_worker(trainee), mode="async", in_flight=in_flight)

    @override
    def learn(self, gradients: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that applies each gradient and periodically updates the target network.

        The worker that computed a gradient then receives the weights of both networks.
        """
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
    """Yields the gradients of a list one by one, so that each is applied separately."""
    return gradients


class ComputeReplayedGradients(WorkerOperator, StatefulOperator):
    """Stores rollout fragments in their worker's local replay buffer, and computes gradients on minibatches from it.

    Args:
        make_learner: Picklable learner factory.
        config: Settings of the replay buffers; the capacity is divided among the workers.
        num_workers: Number of workers.
        minibatch_size: Number of steps per minibatch.
        ratio: Replay ratio: minibatches per stored env step, over all workers.
        n_step: Number of steps in an n-step transition.
        gamma: Discount factor.
        seed: Root seed for sampling from the buffers.
        worker: Index of the worker; 0 on the driver.
        make_goals: Factory of the env's goal functions, for hindsight; None if the env has none.

    Source:
        Nair et al., arXiv:1507.04296, section 4, with local replay memory.
    """

    learns = True

    def __init__(
        self,
        make_learner: LearnerFactory,
        config: ReplayConfig,
        *,
        num_workers: int,
        minibatch_size: int,
        ratio: ReplayRatio,
        n_step: int,
        gamma: float,
        seed: int,
        worker: int = 0,
        make_goals: MakeGoals | None = None,
    ) -> None:
        self.compute = ComputeGradients(make_learner)
        self.config = config
        self.num_workers = num_workers
        self.minibatch_size = minibatch_size
        self.ratio = ratio
        self.n_step = n_step
        self.gamma = gamma
        self.seed = seed
        self.worker = worker
        self.make_goals = make_goals
        self._replay = ReplayBuffer(
            config.replace(capacity=max(config.capacity // num_workers, 1)),
            num_workers=1,
            n_step=n_step,
            gamma=gamma,
            seed=child_seed(seed, "replay", *([worker] if worker else [])),
            make_goals=make_goals,
        )

    @override
    def settings(self) -> dict[str, Any]:
        return {
            "capacity": self.config.capacity // self.num_workers,
            "minibatch_size": self.minibatch_size,
            "training_intensity": self.ratio.training_intensity,
        }

    @override
    def for_worker(self, worker: int) -> ComputeReplayedGradients:
        """Copy of this operator for one worker, whose replay buffer has a separate seed."""
        return ComputeReplayedGradients(
            self.compute.make_learner,
            self.config,
            num_workers=self.num_workers,
            minibatch_size=self.minibatch_size,
            ratio=self.ratio,
            n_step=self.n_step,
            gamma=self.gamma,
            seed=self.seed,
            worker=worker,
            make_goals=self.make_goals,
        )

    @override
    def begin(self) -> None:
        """Creates the learner that computes gradients."""
        self.compute.begin()

    @override
    def set_weights(self, weights: Weights) -> None:
        """Loads the weights at which gradients are computed."""
        self.compute.set_weights(weights)

    @override
    def __call__(self, item: SampleBatch) -> list[Gradients]:
        new_steps, found = self._replay.add(0, item), []
        replay = self._replay
        own = ReplayRatio(self.ratio.training_intensity, self.ratio.learning_starts / self.num_workers)
        while replay.num_ready and replay.drawn_batches < own.minibatches(replay.stored_steps):
            minibatch = replay.sample(self.minibatch_size, self.compute.env_steps)
            rows = SampleBatch({name: column for name, column in minibatch.items() if name != "indices"})
            found.append(self.compute.gradients_of(rows, new_steps))
        return found

    @override
    def state(self) -> dict[str, Any]:
        return self._replay.state()

    @property
    @override
    def unsaved(self) -> str:
        """Reason why a resumed run is not an exact continuation: the local replay buffer is not saved.

        Empty if checkpoints include the buffer.
        """
        return "" if self._replay.is_saved else "the replay buffer is not saved completely"

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._replay.load_state(state)
