"""Operators and the source of a dataflow that learns from kept experience."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow, Operator, StatefulOperator
from rlrun.flow.nodes import Delivered, Pending, Polled, Source
from rlrun.flow.operators import LearnResult
from rlrun.policy.observation_filter import ObservationFilter

if TYPE_CHECKING:
    from rlrun.flow.trainee import Trainee
    from rlrun.replay.experience import Experience
    from rlrun.rollout.worker_set import WorkerSet


@dataclass(frozen=True)
class Learned:
    """What was learned from a minibatch.

    Attributes:
        cells: Where its rows are kept, [S].
        priorities: How much is to be learned from each row still, [S]; empty if the loss says nothing of it.
    """

    cells: NDArray[np.int64]
    priorities: NDArray[np.float32]


class StoreToReplay(StatefulOperator):
    """Puts each fragment by; takes pairs of worker and fragment."""

    def __init__(self, replay: Experience, workers: WorkerSet) -> None:
        """Takes where to, and whose fragments they are."""
        self.replay = replay
        self._lanes = {index: lane for lane, index in enumerate(workers.indices)}

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {"capacity": self.replay.config.capacity}

    def metrics(self) -> dict[str, float]:
        """Returns how much memory, or disk, is set aside for it."""
        return {"replay/gigabytes": self.replay.num_bytes / 1e9}

    def __call__(self, item: tuple[int | None, SampleBatch]) -> LearnResult:
        """Returns how many steps were put by."""
        worker, fragment = item
        return LearnResult(self.replay.add(0 if worker is None else self._lanes[worker], fragment))

    def state(self) -> dict[str, Any]:
        """Returns everything that is kept."""
        return self.replay.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""
        self.replay.load_state(state)


def replayed(
    replay: Experience, workers: WorkerSet, *, batch_size: int, training_intensity: float, learning_starts: int
) -> Flow[SampleBatch]:
    """Delivers minibatches of kept experience, as many as what was put by allows and no more.

    After n steps that is `training_intensity` times n - `learning_starts`, rounded down: counted, not drawn.

    Args:
        replay: Where they are drawn from.
        workers: Whose env steps schedules follow.
        batch_size: Steps in each.
        training_intensity: Minibatches for every step that is put by.
        learning_starts: Steps that are put by before the first.
    """
    return Flow(Replayed(replay, workers, batch_size, training_intensity, learning_starts))


def minibatches_due(stored_steps: int, training_intensity: float, learning_starts: float) -> int:
    """Returns how many minibatches so many steps that were put by allow in all; not above 0 before learning starts."""
    return math.floor(training_intensity * (stored_steps - learning_starts) + 1e-9)


class Replayed(Source):
    """Minibatches out of a replay in this process; see `replayed`."""

    def __init__(
        self, replay: Experience, workers: WorkerSet, batch_size: int, training_intensity: float, learning_starts: int
    ) -> None:
        """Takes what `replayed` takes."""
        super().__init__(
            "replayed",
            {
                "batch_size": batch_size,
                "training_intensity": training_intensity,
                "learning_starts": learning_starts,
            },
        )
        self.replay = replay
        self.workers = workers
        self.batch_size = batch_size
        self.training_intensity = training_intensity
        self.learning_starts = learning_starts

    def next_item(self) -> Polled:
        """Returns the next minibatch, if one is due."""
        replay = self.replay
        due = minibatches_due(replay.stored_steps, self.training_intensity, self.learning_starts)
        if replay.drawn_batches >= due or not replay.num_ready:
            return Pending(reasons=("the replay waits for more steps",))
        return Delivered(replay.sample(self.batch_size, self.workers.env_steps))


class NormalizeReplayed(Operator):
    """Shifts and scales a minibatch's observations by the present statistics: a replay keeps raw ones."""

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee
        self._filter: ObservationFilter | None = None

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the minibatch with `obs`, and `next_obs` where it has them, as the network is to see them."""
        if self._filter is None:
            self._filter = ObservationFilter(self.trainee.learner.policy.leaves)
        self._filter.load(self.trainee.filters.moments)
        seen = {name: self._filter(item[name]) for name in ("obs", "next_obs") if name in item}
        return SampleBatch(item, **seen)


class TrainOnReplayed(Operator):
    """Runs a step of SGD on each minibatch."""

    learns = True

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee

    def __call__(self, item: SampleBatch) -> Learned:
        """Moves the parameters."""
        cells = item.pop("cells")
        return Learned(cells, self.trainee.learner.step(item, scheduled=self.trainee.clock.scheduled()))


class UpdatePriorities(Operator):
    """Tells the replay how much is to be learned from what was drawn still."""

    def __init__(self, replay: Experience) -> None:
        """Takes who is told."""
        self.replay = replay

    def __call__(self, item: Learned) -> Learned:
        """Returns the item as it is."""
        self.replay.update_priorities(item.cells, item.priorities)
        return item
