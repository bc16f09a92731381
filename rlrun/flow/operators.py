"""Operators on batches: advantages, concatenation, training, weights. None of them imports torch or ray."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rlrun.data.sample_batch import SampleBatch, concatenated
from rlrun.flow.flow import Operator, StatefulOperator
from rlrun.functional.masked import standardized
from rlrun.functional.returns import gae
from rlrun.rollout.rollout_worker import DEFAULT_POLICY

if TYPE_CHECKING:
    from rlrun.learner.learner import Learner
    from rlrun.rollout.worker_set import WorkerSet

T = TypeVar("T")


@dataclass(frozen=True)
class LearnResult:
    """What comes out of a learn flow: one iteration is done.

    Attributes:
        batch_steps: Steps in the batch that was learned from.
    """

    batch_steps: int


class ComputeAdvantages(Operator):
    """Adds `advantages` and `value_targets` [T, B] by generalized advantage estimation (arXiv:1506.02438)."""

    def __init__(self, gamma: float, gae_lambda: float) -> None:
        """Takes the discount and the weight between one-step and Monte Carlo estimates."""
        self.gamma = gamma
        self.gae_lambda = gae_lambda

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {"gamma": self.gamma, "gae_lambda": self.gae_lambda}

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the fragment with two columns more."""
        advantages, targets = gae(
            item["rewards"], item["values"], item["terminateds"], item["truncateds"], self.gamma, self.gae_lambda
        )
        return SampleBatch(item, advantages=advantages, value_targets=targets)


class ConcatBatches(StatefulOperator):
    """Puts fragments side by side until a batch is full."""

    def __init__(self, train_batch_size: int) -> None:
        """Takes the steps [T * B] that fill a batch."""
        self.train_batch_size = train_batch_size
        self._waiting: list[SampleBatch] = []

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {"train_batch_size": self.train_batch_size}

    def __call__(self, item: SampleBatch) -> Iterable[SampleBatch]:
        """Returns a batch [T, B1 + B2 + ...] if the fragment filled one, nothing otherwise."""
        self._waiting.append(item)
        if sum(batch.num_rows for batch in self._waiting) < self.train_batch_size:
            return []
        full = concatenated(self._waiting)
        self._waiting = []
        return [full]

    def state(self) -> dict[str, Any]:
        """Returns the fragments that wait."""
        return {"waiting": [dict(batch) for batch in self._waiting]}

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""
        self._waiting = [SampleBatch(batch) for batch in state["waiting"]]


class Standardize(Operator):
    """Shifts and scales a column to mean 0 and deviation 1 over the valid steps of the batch."""

    def __init__(self, column: str) -> None:
        """Takes the column's name."""
        self.column = column

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {"column": self.column}

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the batch with that column standardised."""
        return SampleBatch(item, **{self.column: standardized(item[self.column], item["valid"])})


class TrainOneStep(Operator):
    """Runs epochs of minibatch SGD on a batch."""

    def __init__(
        self,
        learner: Learner,
        workers: WorkerSet,
        *,
        num_epochs: int = 1,
        minibatch_size: int | None = None,
        stop: tuple[str, float] | None = None,
    ) -> None:
        """Takes who learns, and how.

        Args:
            learner: Who learns.
            workers: Whose env steps the schedules follow.
            num_epochs: Passes over the batch.
            minibatch_size: Steps in a minibatch; None for the whole batch.
            stop: (statistic, bound): no further pass begins once its mean over one exceeds the bound.
        """
        self.learner = learner
        self.workers = workers
        self.num_epochs = num_epochs
        self.minibatch_size = minibatch_size
        self.stop = stop

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        stop = {} if self.stop is None else {"stop": f"{self.stop[0]} > {self.stop[1]:g}"}
        return {"num_epochs": self.num_epochs, "minibatch_size": self.minibatch_size, **stop}

    def __call__(self, item: SampleBatch) -> LearnResult:
        """Moves the parameters."""
        rows = item.steps().cleared().rows(1)
        self.learner.learn(
            rows,
            num_epochs=self.num_epochs,
            minibatch_size=self.minibatch_size or item.num_rows,
            env_steps=self.workers.env_steps,
            stop=self.stop,
        )
        return LearnResult(int(item["valid"].sum()))


class MergeFilters(Operator):
    """Adds what the workers have seen since the last time to the policy's running statistics."""

    def __init__(self, learner: Learner, workers: WorkerSet) -> None:
        """Takes who keeps the statistics and who has seen something."""
        self.learner = learner
        self.workers = workers

    def __call__(self, item: T) -> T:
        """Returns the item as it is."""
        self.learner.merge_filters(self.workers.take_filter_deltas(DEFAULT_POLICY))
        return item


class BroadcastWeights(Operator):
    """Sends the present weights and statistics to all workers."""

    def __init__(self, learner: Learner, workers: WorkerSet) -> None:
        """Takes who has learned and who is to act on it."""
        self.learner = learner
        self.workers = workers

    def __call__(self, item: T) -> T:
        """Returns the item as it is."""
        self.learner.weights_version += 1
        self.workers.set_weights({DEFAULT_POLICY: self.learner.weights(self.workers.env_steps)})
        return item
