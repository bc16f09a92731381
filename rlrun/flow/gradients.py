"""Gradients that the workers compute and the driver applies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow, Operator, WorkerOperator
from rlrun.flow.operators import LearnResult, whole_fragment_rows
from rlrun.flow.sources import parallel_rollouts
from rlrun.functional.schedules import values_at
from rlrun.rollout.rollout import DEFAULT_POLICY

if TYPE_CHECKING:
    from rlrun.flow.trainee import Trainee
    from rlrun.learner.local_learner import LocalLearner
    from rlrun.policy.weights import Weights
    from rlrun.rollout.worker_set import WorkerSet

MakeLearner = Callable[[], "LocalLearner"]
"""Makes a learner as it is at the start of the run; it can be sent to a worker."""


class Gradients(TypedDict):
    """What a worker delivers instead of a batch; plain data, so that a checkpoint can hold it.

    Attributes:
        sums: The objectives' gradients, statistics and step counts, as `LocalLearner.gradients` returns them.
        statistics: The names of each objective's statistics in it.
        steps: Env steps that were taken for it.
        weights_version: Version of the weights at which it was computed, which are those that acted.
    """

    sums: NDArray[np.float32]
    statistics: list[list[str]]
    steps: int
    weights_version: int


class ComputeGradients(WorkerOperator):
    """Turns a batch into the gradient of the losses at the weights that acted; runs on a worker.

    The learner that it needs, and with it torch, comes into being on the worker. Settings that change with the env
    steps arrive with the weights; they are taken at the env steps of the weights and the batch.
    """

    learns = True

    def __init__(self, make_learner: MakeLearner, *, whole_fragments: bool = False) -> None:
        """Takes what makes the learner, and what a row is.

        Args:
            make_learner: Makes the learner whose losses count.
            whole_fragments: Whether a row is a whole fragment with its closing observation, [B, T + 1], as losses
                over consecutive steps need it, instead of a single step.
        """
        self.make_learner = make_learner
        self.whole_fragments = whole_fragments
        self._learner: LocalLearner | None = None
        self._weights: Weights | None = None

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {"whole_fragments": True} if self.whole_fragments else {}

    @property
    def env_steps(self) -> int:
        """Env steps that had been taken when the present weights were made."""
        return 0 if self._weights is None else self._weights.env_steps

    def begin(self) -> None:
        """Makes the learner."""
        self._started()

    def set_weights(self, weights: Weights) -> None:
        """Takes the weights that act from now on."""
        self._weights = weights

    def __call__(self, item: SampleBatch) -> Gradients:
        """Returns the gradient over a batch [T, B]."""
        rows = whole_fragment_rows(item) if self.whole_fragments else item.steps().cleared().rows(1)
        return self.of_rows(rows, int(item["valid"].sum()))

    def of_rows(self, rows: SampleBatch, steps: int) -> Gradients:
        """Returns the gradient over rows [S, L] that become known with so many new env steps."""
        if self._weights is None or self._weights.learning is None:
            raise RuntimeError("gradients are computed at weights, and none have arrived")
        learner, weights, learning = self._started(), self._weights, self._weights.learning
        learner.load_flat(learning.flat)
        if learning.target is not None:
            learner.load_target(learning.target)
        return Gradients(
            sums=learner.gradients(rows, scheduled=values_at(weights.schedules, weights.env_steps + steps)),
            statistics=[list(names) for names in learner.statistics_of_gradients],
            steps=steps,
            weights_version=weights.version,
        )

    def _started(self) -> LocalLearner:
        if self._learner is None:
            self._learner = self.make_learner()
        return self._learner


def parallel_gradients(
    workers: WorkerSet,
    make_learner: MakeLearner,
    *operators_on_workers: Callable[[Any], Any],
    whole_fragments: bool = False,
    in_flight: int = 1,
    policy: str = DEFAULT_POLICY,
) -> Flow[Gradients]:
    """Delivers gradients as they are ready, each of one worker's own fragment at the weights that acted in it.

    A worker that has delivered is asked again when the next item is pulled, so that what its gradient did downstream,
    such as sending it new weights, comes before.

    Args:
        workers: Who samples and differentiates; they count each fragment once its gradient is here.
        make_learner: Makes the learner whose losses count.
        operators_on_workers: What each batch passes on its worker, before the gradient.
        whole_fragments: As in `ComputeGradients`.
        in_flight: Requests that a worker has at a time; with 1 it waits for new weights after each gradient.
        policy: Whose batches.
    """
    compute = ComputeGradients(make_learner, whole_fragments=whole_fragments)
    gradients: Flow[Any] = parallel_rollouts(
        workers, *operators_on_workers, compute, mode="async", in_flight=in_flight, policy=policy
    )
    return gradients


class ApplyGradients(Operator):
    """Moves the parameters along each gradient; takes pairs of worker and gradient."""

    learns = True

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee
        self._applied: Counter[int | None] = Counter()

    def __call__(self, item: tuple[int | None, Gradients]) -> LearnResult:
        """Moves the parameters once."""
        worker, gradients = item
        self._applied[worker] += 1
        self.trainee.lag.add(self.trainee.learner.weights_version, np.array(gradients["weights_version"]))
        self.trainee.learner.apply_gradients(
            gradients["sums"],
            [tuple(names) for names in gradients["statistics"]],
            scheduled=self.trainee.clock.scheduled(),
        )
        return LearnResult(gradients["steps"])

    def take_shares(self) -> dict[str, float]:
        """Returns each worker's share of the gradients since the last call, `gradient_share/worker_<index>`."""
        applied, self._applied = self._applied, Counter()
        total = max(applied.total(), 1)
        return {f"gradient_share/worker_{index}": applied[index] / total for index in self.trainee.workers.indices}
