"""SGD on batches and minibatches, and updates of target networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.data.learning_rows import has_empty_rows, learning_rows, without_empty_rows
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Operator, StatefulOperator
from rlrun.metric import Metric

if TYPE_CHECKING:
    from rlrun.flow.trainee import Trainee

T = TypeVar("T")


class TrainOnBatch(Operator):
    """Runs epochs of minibatch SGD on a batch.

    Args:
        trainee: The trainee.
        num_epochs: Passes over the batch.
        minibatch_size: Steps in a minibatch; None for the whole batch.
        whole_fragments: Whether losses are over whole fragments with their closing observations, [B, T + 1], instead of
            single steps.
        seq_len: Steps per sequence of a recurrent policy, see `sequence_rows`; it divides `minibatch_size`. None for
            single steps.
        stop: (statistic, bound) of early stopping: no further epoch once the statistic's mean over an epoch exceeds the
            bound.
    """

    learns = True

    def __init__(
        self,
        trainee: Trainee,
        *,
        num_epochs: int = 1,
        minibatch_size: int | None = None,
        whole_fragments: bool = False,
        seq_len: int | None = None,
        stop: tuple[str, float] | None = None,
    ) -> None:
        self.trainee = trainee
        self.num_epochs = num_epochs
        self.minibatch_size = minibatch_size
        self.whole_fragments = whole_fragments
        self.seq_len = seq_len
        self.stop = stop

    @override
    def settings(self) -> dict[str, Any]:
        stop = {} if self.stop is None else {"stop": f"{self.stop[0]} > {self.stop[1]:g}"}
        rows = {"whole_fragments": True} if self.whole_fragments else {}
        sequences = {} if self.seq_len is None else {"seq_len": self.seq_len}
        return {"num_epochs": self.num_epochs, "minibatch_size": self.minibatch_size, **rows, **sequences, **stop}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Runs the minibatch SGD epochs on a batch [T, B]; returns the batch unchanged.

        Raises:
            UsageError: The policy is recurrent, and `seq_len` is None.
        """
        trainee = self.trainee
        trainee.lag.add(trainee.learner.weights_version, item["weights_version"][item["valid"]])
        length, slots = item["valid"].shape
        batch = SampleBatch({name: column for name, column in item.items() if name != "weights_version"})
        rows = learning_rows(batch, seq_len=self.seq_len, whole_fragments=self.whole_fragments)
        if trainee.is_sparse and self.minibatch_size is not None and has_empty_rows(item):
            if not rows["valid"].any():
                return item
            rows = without_empty_rows(rows, at_least=max(self.minibatch_size // rows["valid"].shape[1], 1))
        trainee.learner.learn(
            rows,
            num_epochs=self.num_epochs,
            # A whole fragment has T + 1 entries for T steps.
            minibatch_size=self._minibatch_rows(length, slots) * (length + 1 if self.whole_fragments else 1),
            scheduled=trainee.clock.scheduled(),
            stop=self.stop,
        )
        return item

    def _minibatch_rows(self, length: int, slots: int) -> int:
        if not self.whole_fragments:
            return self.minibatch_size or length * slots
        return slots if self.minibatch_size is None else max(self.minibatch_size // length, 1)


class TrainedMinibatch(NamedTuple):
    """Result of an SGD step on a replay minibatch: row indices and new priorities.

    Attributes:
        indices: Indices of the minibatch's rows in the replay, [S].
        priorities: New priorities of the rows, [S]; empty if the loss has none.
    """

    indices: NDArray[np.int64]
    priorities: NDArray[np.float32]


class TrainOnMinibatch(Operator):
    """Takes one SGD step on a minibatch of a replay, and reports the number of minibatches per env step.

    Args:
        trainee: The trainee.
        objectives: Names of the objectives that learn from these minibatches; None for all.
    """

    learns = True

    def __init__(self, trainee: Trainee, objectives: Sequence[str] | None = None) -> None:
        self.trainee = trainee
        self.objectives = objectives
        self._minibatches = 0

    @override
    def settings(self) -> dict[str, Any]:
        return {} if self.objectives is None else {"objectives": ", ".join(self.objectives)}

    @override
    def __call__(self, item: SampleBatch) -> TrainedMinibatch:
        """Takes one SGD step on a minibatch of rows [S, ...]."""
        self._minibatches += 1
        rows = SampleBatch({name: column for name, column in item.items() if name != "indices"})
        scheduled = self.trainee.clock.scheduled()
        priorities = self.trainee.learner.step(rows, scheduled=scheduled, objectives=self.objectives)
        return TrainedMinibatch(item["indices"], priorities)

    declared_metrics = (
        Metric("minibatches_per_env_step", "minibatches", "Minibatches for each env step of this iteration"),
    )

    @override
    def metrics(self) -> dict[str, float]:
        """Returns the minibatches since the last call per env step of the iteration."""
        minibatches, self._minibatches = self._minibatches, 0
        return {"minibatches_per_env_step": minibatches / max(self.trainee.clock.env_steps_this_iteration, 1)}


class UpdateTargetNetwork(StatefulOperator):
    """Updates the target network after every `every` items: target <- (1 - tau) target + tau parameters.

    Args:
        trainee: The trainee, whose learner has the target network.
        every: Items, such as minibatches, between two updates.
        tau: Coefficient of the soft update; 1 copies the parameters.
        prefix: Prefix of the names of the updated parameters; "" for all.
    """

    def __init__(self, trainee: Trainee, every: int, tau: float = 1.0, prefix: str = "") -> None:
        self.trainee = trainee
        self.every = every
        self.tau = tau
        self.prefix = prefix
        self._items = 0

    @override
    def settings(self) -> dict[str, Any]:
        prefix = {"prefix": self.prefix} if self.prefix else {}
        return {"every": self.every, **({} if self.tau == 1.0 else {"tau": self.tau}), **prefix}

    @override
    def __call__(self, item: T) -> T:
        self._items += 1
        if self._items % self.every == 0:
            self.trainee.learner.update_target(self.tau, self.prefix)
        return item

    @override
    def state(self) -> dict[str, Any]:
        """Returns the number of items so far."""
        return {"items": self._items}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._items = int(state["items"])
