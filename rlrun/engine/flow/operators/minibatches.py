"""SGD on minibatches of a replay buffer, and updates of target networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Operator, StatefulOperator
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee

T = TypeVar("T")


class TrainedMinibatch(NamedTuple):
    """Result of SGD on replay minibatches: the indices of their rows, and the rows' new priorities.

    Attributes:
        indices: Indices of the minibatches' rows in the replay buffer.
        priorities: New priorities of the rows; empty if the loss computes none, or for several minibatches.
        number: Number of minibatches.
    """

    indices: NDArray[np.int64]
    priorities: NDArray[np.float32]
    number: int = 1


class TrainOnMinibatch(Operator):
    """Takes one SGD step on each replay minibatch; its metric is the number of minibatches per env step.

    Args:
        trainee: The policy in training.
        objectives: Names of the losses to minimize on these minibatches; None for all.
        minibatch_size: Rows of a minibatch, if one item may contain several minibatches; None if each item is one
            minibatch.
    """

    learns = True

    def __init__(
        self, trainee: Trainee, objectives: Sequence[str] | None = None, minibatch_size: int | None = None
    ) -> None:
        self.trainee = trainee
        self.objectives = objectives
        self.minibatch_size = minibatch_size
        self._minibatches = 0

    @override
    def settings(self) -> dict[str, Any]:
        return {} if self.objectives is None else {"objectives": ", ".join(self.objectives)}

    @override
    def __call__(self, item: SampleBatch) -> TrainedMinibatch:
        """Takes one SGD step on each minibatch of rows [S, ...]."""
        number = 1 if self.minibatch_size is None else len(item["indices"]) // self.minibatch_size
        self._minibatches += number
        rows = SampleBatch({name: column for name, column in item.items() if name != "indices"})
        scheduled = self.trainee.clock.scheduled()
        priorities = self.trainee.learner.step(
            rows, scheduled=scheduled, objectives=self.objectives, minibatches=number
        )
        return TrainedMinibatch(item["indices"], priorities, number)

    declared_metrics = (
        Metric("minibatches_per_env_step", "minibatches", "Minibatches for each env step of this iteration"),
    )

    @override
    def metrics(self) -> dict[str, float]:
        """Returns the number of minibatches per env step since the last call."""
        minibatches, self._minibatches = self._minibatches, 0
        return {"minibatches_per_env_step": minibatches / max(self.trainee.clock.env_steps_this_iteration, 1)}


class UpdateTargetNetwork(StatefulOperator):
    """Moves the target network towards the learned parameters each time that `every` items have passed.

    The update is target <- (1 - tau) * target + tau * parameters.

    Args:
        trainee: The policy in training, whose learner has the target network.
        every: Number of items (minibatches, if the items come from a replay buffer) between two updates.
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

    @property
    def items_left(self) -> int:
        """Number of items that must still pass before the next update of the target network."""
        return self.every - self._items % self.every

    @override
    def __call__(self, item: T) -> T:
        self._items += item.number if isinstance(item, TrainedMinibatch) else 1
        if self._items % self.every == 0:
            self.trainee.learner.update_target(self.tau, self.prefix)
        return item

    @override
    def state(self) -> dict[str, Any]:
        """Returns the number of items since the last update of the target network, for checkpoints."""
        return {"items": self._items}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._items = int(state["items"])
