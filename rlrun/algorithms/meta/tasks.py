"""SGD on batches of meta-learning tasks, where a row holds all episodes of a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Operator
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee

LEARNED_FROM = ("obs", "actions", "logp", "advantages", "valid")


class TrainOnTasks(Operator):
    """Runs epochs of full-batch SGD on batches of tasks.

    A row holds all steps of a task, ordered by phase (between inner gradient steps), episode and time.

    Args:
        trainee: The policy in training whose learner is updated.
        phases: Number of phases of a task: inner gradient steps plus 1.
        episodes: Number of episodes in each phase; each is a column of the batch.
        num_epochs: Number of updates per batch.
        objectives: Names of the objectives to update; None for all.
    """

    learns = True

    def __init__(
        self,
        trainee: Trainee,
        *,
        phases: int,
        episodes: int,
        num_epochs: int,
        objectives: Sequence[str] | None = None,
    ) -> None:
        self.trainee = trainee
        self.phases = phases
        self.episodes = episodes
        self.num_epochs = num_epochs
        self.objectives = objectives
        self._returns = np.zeros(phases)
        self._batches = 0

    @override
    def settings(self) -> dict[str, Any]:
        return {"phases": self.phases, "episodes": self.episodes, "num_epochs": self.num_epochs}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        trainee, valid = self.trainee, item["valid"]
        trainee.lag.add(trainee.learner.weights_version, item["weights_version"][valid])
        returns = (item["rewards"] * valid).sum(0).reshape(-1, self.phases, self.episodes)
        self._returns += returns.mean((0, 2))
        self._batches += 1
        rows = task_rows(item, self.phases * self.episodes)
        trainee.learner.learn(
            rows,
            num_epochs=self.num_epochs,
            minibatch_size=rows["valid"].size,
            scheduled=trainee.clock.scheduled(),
            objectives=self.objectives,
        )
        return item

    declared_metrics = (
        Metric("adaptation/return_before", "", "Mean return of episodes before adaptation", mode="max"),
        Metric(
            "adaptation/return_after",
            "",
            "Mean return of episodes after the last adaptation step",
            mode="max",
        ),
    )

    @override
    def metrics(self) -> dict[str, float]:
        means, self._returns, self._batches = self._returns / max(self._batches, 1), np.zeros(self.phases), 0
        return {"adaptation/return_before": float(means[0]), "adaptation/return_after": float(means[-1])}


def task_rows(batch: SampleBatch, columns: int) -> SampleBatch:
    """Reshapes a batch [T, B] to one row per task, [B / columns, columns * T], concatenating episodes.

    Args:
        batch: Batch [T, B] with final observations.
        columns: Number of adjacent episodes per task.
    """
    length, slots = batch["valid"].shape
    steps = batch.steps()
    kept = SampleBatch({name: steps[name] for name in LEARNED_FROM}).zero_invalid()

    def cut(leaf: Any) -> Any:
        return np.ascontiguousarray(np.moveaxis(leaf, 0, 1)).reshape(
            slots // columns, columns * length, *leaf.shape[2:]
        )

    return kept.map(cut)
