"""Operators that train on minibatches of recorded data, either alone or mixed with experience from an env."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch, concatenated_rows
from rlrun.engine.flow.flow import Operator, StatefulOperator
from rlrun.engine.flow.operators.minibatches import TrainedMinibatch

if TYPE_CHECKING:
    from rlrun.engine.flow.sources.items import StatefulSource
    from rlrun.engine.flow.trainee import Trainee


class TrainOnData(Operator):
    """Takes one SGD step on each minibatch of recorded data."""

    learns = True

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Takes one SGD step on rows [sequences, steps, ...], and returns them."""
        rows = SampleBatch({name: column for name, column in item.items() if name != "indices"})
        self.trainee.learner.step(rows, scheduled=self.trainee.clock.scheduled())
        return item


class AddData(StatefulOperator):
    """Appends rows of recorded data to each minibatch from a replay buffer, with -1 as their index in the buffer.

    Args:
        data: Source of the rows, whose position is saved in checkpoints.
    """

    def __init__(self, data: StatefulSource[SampleBatch]) -> None:
        self.data = data

    @override
    def settings(self) -> dict[str, Any]:
        return self.data.settings()

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the rows of the minibatch, followed by rows of recorded data."""
        rows = next(self.data)
        return concatenated_rows([item, SampleBatch(rows, indices=np.full_like(rows["indices"], -1))])

    @override
    def state(self) -> dict[str, Any]:
        """Returns the position in the recorded data, for checkpoints."""
        return self.data.state()

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self.data.load_state(state)


class DropDataPriorities(Operator):
    """Removes rows of recorded data from the new replay priorities, since these rows are not in the replay buffer."""

    @override
    def __call__(self, item: TrainedMinibatch) -> TrainedMinibatch:
        own = item.indices >= 0
        return TrainedMinibatch(item.indices[own], item.priorities[own] if len(item.priorities) else item.priorities)
