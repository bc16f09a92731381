"""Operators for asynchronous gradients (A3C), which workers compute and the trial's process applies."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.learning_rows import learning_rows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Operator, WorkerOperator
from rlrun.engine.settings.metric import Metric
from rlrun.engine.settings.schedules import values_at

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.learner.learner import GradientLearner, LearnerFactory
    from rlrun.engine.policy.weights import Weights


class Gradients(TypedDict):
    """Gradient computed by an A3C worker, sent as plain data that checkpoints can store.

    Attributes:
        sums: Gradients, statistics and step counts of the losses, as `Learner.gradients` returns them.
        statistics: Names of each loss's statistics, by name of its objective.
        steps: Env steps in the worker's batch.
        weights_version: Version of the weights that collected the batch and at which the gradient was computed.
    """

    sums: NDArray[np.float32]
    statistics: dict[str, list[str]]
    steps: int
    weights_version: int


class ComputeGradients(WorkerOperator):
    """Computes the gradient of the losses on a worker, at the weights that collected the batch (A3C).

    The worker creates a learner, and imports torch for it. Schedules arrive with the weights, and are evaluated at
    the number of env steps that the trial had taken when it sent the weights, plus the env steps of the batch.

    Args:
        make_learner: Picklable function that creates a learner.
        whole_fragments: Whether the losses need sequences [B, T + 1] (whole fragments of T steps in B env slots, and
            the observation after them) instead of single steps.
        seq_len: Steps per sequence of a recurrent policy; None for single steps.
    """

    learns = True

    def __init__(
        self, make_learner: LearnerFactory, *, whole_fragments: bool = False, seq_len: int | None = None
    ) -> None:
        self.make_learner = make_learner
        self.whole_fragments = whole_fragments
        self.seq_len = seq_len
        self._learner: GradientLearner | None = None
        self._weights: Weights | None = None

    @override
    def settings(self) -> dict[str, Any]:
        sequences = {} if self.seq_len is None else {"seq_len": self.seq_len}
        return {**({"whole_fragments": True} if self.whole_fragments else {}), **sequences}

    @property
    def env_steps(self) -> int:
        """Number of env steps that the trial had taken when it sent the worker's current weights."""
        return 0 if self._weights is None else self._weights.env_steps

    @override
    def begin(self) -> None:
        """Creates the learner with which this worker computes gradients."""
        self._started()

    @override
    def set_weights(self, weights: Weights) -> None:
        """Stores the policy's new weights, at which the gradients of the following fragments are computed."""
        self._weights = weights

    @override
    def __call__(self, item: SampleBatch) -> Gradients:
        """Computes the gradient over a batch [T, B]."""
        rows = learning_rows(item, seq_len=self.seq_len, whole_fragments=self.whole_fragments)
        return self.gradients_of(rows, int(item["valid"].sum()))

    def gradients_of(self, rows: SampleBatch, steps: int) -> Gradients:
        """Computes the gradient on a batch of sequences that took the given number of env steps to collect."""
        weights = self._weights
        if weights is None or weights.learning is None:
            raise RuntimeError("a worker started to compute gradients before it received weights")
        learner = self._started()
        learner.load_flat(weights.learning.flat)
        if weights.learning.target is not None:
            learner.load_target(weights.learning.target)
        return Gradients(
            sums=learner.gradients(rows, scheduled=values_at(weights.schedules, weights.env_steps + steps)),
            statistics={name: list(names) for name, names in learner.statistics_of_gradients.items()},
            steps=steps,
            weights_version=weights.version,
        )

    def _started(self) -> GradientLearner:
        if self._learner is None:
            self._learner = self.make_learner()
        return self._learner


class ApplyGradients(Operator):
    """Updates the parameters with each worker's gradient; takes pairs (worker index, gradient).

    The metric `gradient_share/worker_<index>` is a worker's fraction of the gradients in an iteration.
    """

    learns = True

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee
        self._applied: Counter[int | None] = Counter()

    @override
    def __call__(self, item: tuple[int | None, Gradients]) -> Gradients:
        """Takes one optimizer step; returns the gradient."""
        worker, gradients = item
        learner = self.trainee.learner
        self._applied[worker] += 1
        self.trainee.lag.add(learner.weights_version, np.array(gradients["weights_version"]))
        learner.apply_gradients(
            gradients["sums"],
            gradients["statistics"],
            scheduled=self.trainee.clock.scheduled(),
        )
        return gradients

    declared_metrics = (
        Metric("gradient_share/worker_<index>", "", "Fraction of this iteration's gradients that came from a worker"),
    )

    @override
    def metrics(self) -> dict[str, float]:
        """Returns each worker's fraction of the gradients since the last call."""
        applied, self._applied = self._applied, Counter()
        total = max(applied.total(), 1)
        return {f"gradient_share/worker_{index}": applied[index] / total for index in self.trainee.workers.indices}
