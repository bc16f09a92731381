"""Gradients from local replay buffers of the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import StatefulOperator, WorkerOperator
from rlrun.engine.flow.operators.gradients import ComputeGradients, Gradients
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.replay.replay import ReplayRatio
from rlrun.engine.replay.replay_buffer import ReplayBuffer

if TYPE_CHECKING:
    from rlrun.engine.learner.learner import LearnerFactory
    from rlrun.engine.policy.weights import Weights
    from rlrun.engine.replay.hindsight import MakeGoals
    from rlrun.engine.replay.replay_config import ReplayConfig


class ComputeReplayedGradients(WorkerOperator, StatefulOperator):
    """Stores each fragment in its worker's local replay, and computes gradients of minibatches from it.

    Args:
        make_learner: Picklable learner factory.
        config: Settings of the replay; the capacity is divided among the workers.
        num_workers: Number of workers.
        minibatch_size: Steps per minibatch.
        ratio: Replay ratio: minibatches per stored env step, over all workers.
        n_step: Steps of an n-step transition.
        gamma: Discount factor.
        seed: Root seed of the replay's sampling.
        worker: Index of the worker; 0 on the driver.
        make_goals: Factory of the env's goal functions, for hindsight; None if the env has none.

    Source:
        Nair et al., arXiv:1507.04296, section 4: replay memory in its local form.
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
        """Copy of this operator for one worker, whose replay has a separate seed."""
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
        """Reason why a resume is not exact: the local replay buffer is not saved.

        "" if checkpoints include the buffer.
        """
        return "" if self._replay.is_saved else "the replay buffer is not saved whole"

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._replay.load_state(state)
