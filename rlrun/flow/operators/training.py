"""SGD on batches and minibatches, and the target network that follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.data.learning_rows import has_empty_rows, learning_rows, target_rows, without_empty_rows
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Operator, StatefulOperator
from rlrun.metric import Metric

if TYPE_CHECKING:
    from rlrun.flow.trainee import Trainee

T = TypeVar("T")


class TrainOnBatch(Operator):
    """Runs epochs of minibatch SGD on a batch.

    Args:
        trainee: What learns.
        num_epochs: Passes over the batch.
        minibatch_size: Steps in a minibatch; None for the whole batch.
        whole_fragments: Whether a row is a whole fragment with its closing observation, [B, T + 1], as losses over
            consecutive steps need it, instead of a single step.
        seq_len: Steps in a row of a recurrent policy, see `sequence_rows`; it divides `minibatch_size`. None for rows
            of single steps.
        stop: (statistic, bound): no further pass begins once its mean over one exceeds the bound.
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
        """Moves the parameters; returns the batch as it is.

        Raises:
            UsageError: The policy is recurrent, and rows are single steps.
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
            # A fragment's row has one cell more than steps.
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
    """A minibatch of a replay that was learned from.

    Attributes:
        indices: Where its rows are kept in the replay, [S].
        priorities: The rows' new priorities, [S]; empty if the loss gives none.
    """

    indices: NDArray[np.int64]
    priorities: NDArray[np.float32]


class TrainOnMinibatch(Operator):
    """Runs one step of SGD on a minibatch of a replay, and reports how many that were for each env step.

    Args:
        trainee: What learns.
        objectives: Names of the objectives that these minibatches are for; None for all.
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
        """Moves the parameters."""
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
        """Returns minibatches since the last call for each env step of the iteration."""
        minibatches, self._minibatches = self._minibatches, 0
        return {"minibatches_per_env_step": minibatches / max(self.trainee.clock.env_steps_this_iteration, 1)}


class AddTargetOutputs(Operator):
    """Adds what the target network puts out for each observation, `target_outputs` [T, B, K]."""

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the batch with one column more."""
        rows, packing = target_rows(item)
        outputs = np.moveaxis(self.trainee.learner.target_outputs(rows), 1, 0)
        return SampleBatch(item, target_outputs=packing.unpack(outputs[: len(item["valid"])]))


class UpdateTargetNetwork(StatefulOperator):
    """Moves the target network towards the parameters after every so many items.

    Args:
        trainee: Whose target network.
        every: Items, such as minibatches, between two updates.
        tau: Which part of the way it moves; 1 copies the parameters.
        prefix: Of the names of the parameters that move; "" for all.
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
        """Returns the number of items."""
        return {"items": self._items}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._items = int(state["items"])
