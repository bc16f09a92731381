"""Auxiliary phases of PPG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.engine.data.learning_rows import learning_rows
from rlrun.engine.data.restored_rows import RestoredRows
from rlrun.engine.data.sample_batch import SampleBatch, concatenated_rows, network_columns
from rlrun.engine.flow.flow import StatefulOperator

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee


class AuxiliaryPhase(StatefulOperator):
    """Keeps what batches showed, and after several of them trains an objective on all that is kept.

    The rows have `target_outputs`, those of the present policy, which the auxiliary loss keeps in place.

    Args:
        trainee: The trainee.
        objective: Name of the objective.
        policy_iterations: Batches in a phase, N_pi.
        num_epochs: Passes over the rows of a phase.
        minibatch_size: Steps in a minibatch.
        seq_len: Steps per sequence of a recurrent policy; None for single steps.
    """

    learns = True

    def __init__(
        self,
        trainee: Trainee,
        objective: str,
        *,
        policy_iterations: int,
        num_epochs: int,
        minibatch_size: int,
        seq_len: int | None,
    ) -> None:
        self.trainee = trainee
        self.objective = objective
        self.policy_iterations = policy_iterations
        self.num_epochs = num_epochs
        self.minibatch_size = minibatch_size
        self.seq_len = seq_len
        self._kept: list[SampleBatch] = []
        self._restored = RestoredRows()

    @override
    def settings(self) -> dict[str, Any]:
        return {
            "policy_iterations": self.policy_iterations,
            "num_epochs": self.num_epochs,
            "minibatch_size": self.minibatch_size,
        }

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Keeps the rows of a batch [T, B], and trains if the phase is over; returns the batch unchanged."""
        columns = SampleBatch({name: column for name, column in item.items() if name != "weights_version"})
        rows = learning_rows(columns, seq_len=self.seq_len, whole_fragments=False)
        rows = SampleBatch(network_columns(rows), value_targets=rows["value_targets"])
        self._restored.compare(rows)
        self._kept.append(rows)
        if len(self._kept) == self.policy_iterations:
            self._train()
        return item

    def _train(self) -> None:
        from rlrun.algorithms.ppg.policy import action_outputs

        learner, kept = self.trainee.learner, self._kept
        self._kept = []
        # Batch by batch, since a forward pass of all rows at once would need the memory of all their features.
        targets = [SampleBatch(rows, target_outputs=learner.evaluate(action_outputs, rows)) for rows in kept]
        learner.learn(
            concatenated_rows(targets),
            num_epochs=self.num_epochs,
            minibatch_size=self.minibatch_size,
            scheduled=self.trainee.clock.scheduled(),
            objectives=(self.objective,),
        )

    @override
    def state(self) -> dict[str, Any]:
        """Returns the rows that are kept for the next auxiliary phase."""
        return {"kept": [dict(rows) for rows in self._kept]}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._kept = [SampleBatch(rows) for rows in state["kept"]]
        self._restored.load(self._kept)
