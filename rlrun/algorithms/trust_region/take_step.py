"""One step of an objective on a whole batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.engine.data.learning_rows import learning_rows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Operator

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee


class TakeStep(Operator):
    """Runs an objective once on a whole batch, after other objectives have learned from the batch.

    Args:
        trainee: The trainee.
        objective: Name of the objective.
        seq_len: Steps per sequence of a recurrent policy; None for single steps.
    """

    learns = True

    def __init__(self, trainee: Trainee, objective: str, *, seq_len: int | None = None) -> None:
        self.trainee = trainee
        self.objective = objective
        self.seq_len = seq_len

    @override
    def settings(self) -> dict[str, Any]:
        return {"objective": self.objective}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Takes the step on a batch [T, B]; returns the batch unchanged."""
        columns = SampleBatch({name: column for name, column in item.items() if name != "weights_version"})
        rows = learning_rows(columns, seq_len=self.seq_len, whole_fragments=False)
        scheduled = self.trainee.clock.scheduled()
        self.trainee.learner.step(rows, scheduled=scheduled, objectives=(self.objective,))
        return item
