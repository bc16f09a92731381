"""Replays on the workers, each with its own worker's experience."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import StatefulOperator, WorkerOperator
from rlrun.flow.gradients import ComputeGradients, Gradients, MakeLearner
from rlrun.flow.replay import minibatches_due
from rlrun.functional.seeding import child_seed
from rlrun.replay.replay_buffer import ReplayBuffer

if TYPE_CHECKING:
    from rlrun.policy.weights import Weights
    from rlrun.replay.replay_config import ReplayConfig


class ComputeReplayedGradients(WorkerOperator, StatefulOperator):
    """Puts each fragment by on its worker, and turns the minibatches that are due then into gradients.

    Source:
        Nair et al., arXiv:1507.04296, section 4: replay memory in its local form.
    """

    learns = True

    def __init__(
        self,
        make_learner: MakeLearner,
        config: ReplayConfig,
        *,
        num_workers: int,
        batch_size: int,
        training_intensity: float,
        learning_starts: int,
        n_step: int,
        gamma: float,
        seed: int,
        worker: int = 0,
    ) -> None:
        """Takes what is kept, and how much is learned from it.

        Args:
            make_learner: Makes the learner whose losses count.
            config: The replay's settings; its capacity is shared out to the workers.
            num_workers: How many those are.
            batch_size: Steps in a minibatch.
            training_intensity: Minibatches for every step that is put by.
            learning_starts: Steps that all workers together put by before the first.
            n_step: Steps that are folded into one.
            gamma: Discount.
            seed: Root seed of the draws.
            worker: On a worker: its index.
        """
        self.compute = ComputeGradients(make_learner)
        self.config = config
        self.num_workers = num_workers
        self.batch_size = batch_size
        self.training_intensity = training_intensity
        self.learning_starts = learning_starts
        self.n_step = n_step
        self.gamma = gamma
        self.seed = seed
        self.worker = worker
        self._replay = ReplayBuffer(
            config.replace(capacity=max(config.capacity // num_workers, 1)),
            num_lanes=1,
            n_step=n_step,
            gamma=gamma,
            seed=child_seed(seed, "replay", *([worker] if worker else [])),
        )

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {
            "capacity": self.config.capacity // self.num_workers,
            "batch_size": self.batch_size,
            "training_intensity": self.training_intensity,
        }

    def for_worker(self, worker: int) -> ComputeReplayedGradients:
        """Returns the operator with the worker's own draws."""
        return ComputeReplayedGradients(
            self.compute.make_learner,
            self.config,
            num_workers=self.num_workers,
            batch_size=self.batch_size,
            training_intensity=self.training_intensity,
            learning_starts=self.learning_starts,
            n_step=self.n_step,
            gamma=self.gamma,
            seed=self.seed,
            worker=worker,
        )

    def begin(self) -> None:
        """Makes the learner."""
        self.compute.begin()

    def set_weights(self, weights: Weights) -> None:
        """Takes the weights that act, and at which gradients are computed, from now on."""
        self.compute.set_weights(weights)

    def __call__(self, item: SampleBatch) -> list[Gradients]:
        """Returns the gradients that the fragment makes due: none while too little is kept."""
        new_steps, found = self._replay.add(0, item), []
        replay = self._replay
        starts = self.learning_starts / self.num_workers
        due = minibatches_due(replay.stored_steps, self.training_intensity, starts)
        while replay.num_ready and replay.drawn_batches < due:
            minibatch = replay.sample(self.batch_size, self.compute.env_steps)
            minibatch.pop("cells")
            found.append(self.compute.of_rows(minibatch, new_steps))
        return found

    def state(self) -> dict[str, Any]:
        """Returns everything that is kept."""
        return self._replay.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""
        self._replay.load_state(state)
