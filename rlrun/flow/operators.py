"""Operators on batches: advantages, concatenation, training, weights. None of them imports torch or ray."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rlrun.data.sample_batch import SampleBatch, concatenated
from rlrun.flow.flow import Operator, StatefulOperator
from rlrun.functional.masked import standardized
from rlrun.functional.returns import gae
from rlrun.rollout.rollout import DEFAULT_POLICY

if TYPE_CHECKING:
    from rlrun.flow.trainee import Trainee
    from rlrun.learner.learner import Learner
    from rlrun.policy.weights import Weights

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

    def __init__(self, train_batch_size: int, *, exact: bool = False) -> None:
        """Takes what a full batch is.

        Args:
            train_batch_size: Steps [T * B] that fill a batch.
            exact: Whether a batch has exactly so many, and what is beyond them waits for the next; T divides them.
        """
        self.train_batch_size = train_batch_size
        self.exact = exact
        self._waiting: list[SampleBatch] = []

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {"train_batch_size": self.train_batch_size}

    def __call__(self, item: SampleBatch) -> Iterable[SampleBatch]:
        """Returns a batch [T, B1 + B2 + ...] if the fragment filled one, or several; nothing otherwise."""
        self._waiting.append(item)
        if sum(batch.num_rows for batch in self._waiting) < self.train_batch_size:
            return []
        full = concatenated(self._waiting)
        self._waiting = []
        if not self.exact:
            return [full]
        length, columns = full["valid"].shape
        each = self.train_batch_size // length
        *cuts, rest = range(0, columns + 1, each)
        if rest < columns:
            self._waiting = [full.map(lambda leaf: leaf[:, rest:])]
        return [full.map(lambda leaf, start=start: leaf[:, start : start + each]) for start in cuts]

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

    learns = True

    def __init__(
        self,
        trainee: Trainee,
        *,
        num_epochs: int = 1,
        minibatch_size: int | None = None,
        whole_fragments: bool = False,
        stop: tuple[str, float] | None = None,
    ) -> None:
        """Takes who learns, and how.

        Args:
            trainee: Who learns.
            num_epochs: Passes over the batch.
            minibatch_size: Steps in a minibatch; None for the whole batch.
            whole_fragments: Whether a row is a whole fragment with its closing observation, [B, T + 1], as losses
                over consecutive steps need it, instead of a single step.
            stop: (statistic, bound): no further pass begins once its mean over one exceeds the bound.
        """
        self.trainee = trainee
        self.num_epochs = num_epochs
        self.minibatch_size = minibatch_size
        self.whole_fragments = whole_fragments
        self.stop = stop

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        stop = {} if self.stop is None else {"stop": f"{self.stop[0]} > {self.stop[1]:g}"}
        rows = {"whole_fragments": True} if self.whole_fragments else {}
        return {"num_epochs": self.num_epochs, "minibatch_size": self.minibatch_size, **rows, **stop}

    def __call__(self, item: SampleBatch) -> LearnResult:
        """Moves the parameters."""
        self.trainee.lag.add(self.trainee.learner.weights_version, item["weights_version"])
        length, columns = item["valid"].shape
        learned = SampleBatch({name: column for name, column in item.items() if name != "weights_version"})
        self.trainee.learner.learn(
            whole_fragment_rows(learned) if self.whole_fragments else learned.steps().cleared().rows(1),
            num_epochs=self.num_epochs,
            # A fragment's row has one cell more than steps.
            minibatch_size=self._minibatch_rows(length, columns) * (length + 1 if self.whole_fragments else 1),
            scheduled=self.trainee.clock.scheduled(),
            stop=self.stop,
        )
        return LearnResult(int(item["valid"].sum()))

    def _minibatch_rows(self, length: int, columns: int) -> int:
        if not self.whole_fragments:
            return self.minibatch_size or length * columns
        return columns if self.minibatch_size is None else max(self.minibatch_size // length, 1)


def whole_fragment_rows(batch: SampleBatch) -> SampleBatch:
    """Cuts a batch [T, B] into one row for each of its columns, closed by the observation behind its last step."""
    closed = batch.closed()
    return closed.cleared(keep=("obs",)).rows(closed["valid"].shape[0])


class MergeFilters(Operator):
    """Adds what the workers have seen since the last time to the policy's running statistics."""

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee

    def __call__(self, item: T) -> T:
        """Returns the item as it is."""
        self.trainee.filters.merge(self.trainee.workers.take_filter_deltas(DEFAULT_POLICY))
        return item


class BroadcastWeights(Operator):
    """Sends the present weights and statistics to all workers."""

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee

    def __call__(self, item: T) -> T:
        """Returns the item as it is."""
        self.trainee.workers.set_weights({DEFAULT_POLICY: self.trainee.weights()})
        return item


class SendWeights(Operator):
    """Sends the present weights to the worker that has just delivered; takes pairs of worker and batch."""

    def __init__(self, trainee: Trainee, every: int = 1, *, learning: bool = False) -> None:
        """Takes who has learned, who is to act on it, and how.

        Args:
            trainee: Who has learned, with the workers that are to act on it.
            every: How many batches a worker's weights may lag behind.
            learning: Whether all parameters and the target network go along, for workers that compute gradients.
        """
        self.trainee = trainee
        self.every = every
        self.learning = learning
        self._sent: dict[int | None, int] = {}
        self._latest: tuple[int, dict[str, Weights]] | None = None

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {**({"every": self.every} if self.every > 1 else {}), **({"learning": True} if self.learning else {})}

    def __call__(self, item: tuple[int | None, T]) -> T:
        """Returns the batch as it is."""
        worker, batch = item
        version = self.trainee.learner.weights_version
        age = version - self._sent.get(worker, -self.every)
        if not 0 <= age < self.every:  # below 0: an older checkpoint was loaded meanwhile
            if self._latest is None or self._latest[0] != version:  # the same object is stored once for all workers
                self._latest = version, {DEFAULT_POLICY: self._weights()}
            self.trainee.workers.set_weights(self._latest[1], worker)
            self._sent[worker] = version
        return batch

    def _weights(self) -> Weights:
        return self.trainee.learning_weights() if self.learning else self.trainee.weights()


class AddTargetOutputs(Operator):
    """Adds what the target network puts out for each observation, `target_outputs` [T, B, K]."""

    def __init__(self, learner: Learner) -> None:
        """Takes who holds the target network."""
        self.learner = learner

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the batch with one column more."""
        return SampleBatch(item, target_outputs=self.learner.target_outputs(item.steps()))


class UpdateTargetNetwork(StatefulOperator):
    """Moves the target network towards the parameters after every so many batches."""

    def __init__(self, learner: Learner, every: int, tau: float = 1.0) -> None:
        """Takes who holds both, after how many batches, and by which part of the way; 1 copies the parameters."""
        self.learner = learner
        self.every = every
        self.tau = tau
        self._batches = 0

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {"every": self.every, **({} if self.tau == 1.0 else {"tau": self.tau})}

    def __call__(self, item: T) -> T:
        """Returns the item as it is."""
        self._batches += 1
        if self._batches % self.every == 0:
            self.learner.update_target(self.tau)
        return item

    def state(self) -> dict[str, Any]:
        """Returns the number of batches."""
        return {"batches": self._batches}

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""
        self._batches = int(state["batches"])
