"""Decentralized SGD on rollout workers, with all-reduced gradients and no central learner."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.learning_rows import learning_rows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Operator, StatefulOperator, WorkerOperator
from rlrun.engine.flow.operators.training import PARTS
from rlrun.engine.flow.operators.value_estimates import NO_VALUES, VALUE_METRICS, value_metrics, value_moments
from rlrun.engine.functional.moments import Moments
from rlrun.engine.messages.errors import TrainingFailed
from rlrun.engine.settings.registry import load_internal
from rlrun.engine.settings.schedules import values_at

if TYPE_CHECKING:
    from rlrun.engine.flow.operators.recomputation import RecomputedAdvantages
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.learner.data_parallel.all_reduce import AllReduce, Backend
    from rlrun.engine.learner.learner import GradientLearner, LearnerFactory
    from rlrun.engine.policy.weights import LearningWeights, Weights

Doubles = NDArray[np.float64]


class ReplicaUpdate(TypedDict):
    """Result of a worker's update, as plain data that a checkpoint can hold.

    Attributes:
        steps: Number of valid steps in all workers' batches.
        weights_version: Version of the weights that collected the batch.
        digest: Digest of the worker's parameters, the same for all workers.
        values: Moments of value estimates and value targets in the worker's batch; see `value_moments`.
        flat: Updated parameters [P], equal on all workers, but sent by only one; None from the others.
        learner: State of the learner: optimizer, counters, minibatch order and statistics; complete only from the
            worker that sends `flat`.
    """

    steps: int
    weights_version: int
    digest: int
    values: dict[str, object]
    flat: NDArray[np.float32] | None
    learner: dict[str, Any]


class AllReduceSGD(WorkerOperator, StatefulOperator):
    """Runs epochs of minibatch SGD on a worker's batch, with gradients summed over all workers' minibatches.

    All workers hold bit-identical parameters and optimizer states, since each applies the same sum of gradients. They
    sample and learn in lockstep, so rollout fragments must be requested from all workers at the same time.

    Args:
        make_learner: Picklable learner factory.
        num_workers: Number of workers that learn together; a single or local worker learns alone.
        num_epochs: Number of epochs (passes over each batch).
        minibatch_size: Number of steps in a minibatch, summed over all workers.
        seq_len: Number of steps per sequence of a recurrent policy, a divisor of each worker's share of a minibatch;
            None for single steps.
        standardize: Name of the column to standardize over all workers' batches, or None.
        stop: Early stopping (statistic, bound): no further epoch begins once the statistic's epoch mean exceeds the
            bound.
        recompute: Operator that adds advantages to a batch with values. It runs again, with the values of the current
            network, before each epoch except the first; None to keep the first advantages.
        timeout_s: Timeout, in seconds, for waiting on other workers, at the rendezvous and in each step. The driver's
            timeout may be shorter.
        has_own_gpu: Whether each worker has its own GPU, so that gradients are summed without the CPU.
        member: Rank from 0 and rendezvous address of a worker; None on the driver, and for a worker that learns
            alone.

    Source:
        Wijmans et al., arXiv:1911.00357, section 3.
    """

    learns = True

    def __init__(
        self,
        make_learner: LearnerFactory,
        num_workers: int,
        *,
        num_epochs: int,
        minibatch_size: int,
        seq_len: int | None = None,
        standardize: str | None = None,
        stop: tuple[str, float] | None = None,
        recompute: Callable[[SampleBatch], SampleBatch] | None = None,
        timeout_s: float,
        has_own_gpu: bool = False,
        member: tuple[int, tuple[str, int]] | None = None,
    ) -> None:
        self.make_learner = make_learner
        self.num_workers = max(num_workers, 1)
        self.num_epochs = num_epochs
        self.minibatch_size = minibatch_size
        self.seq_len = seq_len
        self.standardize = standardize
        self.stop = stop
        self.recompute = recompute
        self.timeout_s = timeout_s
        self.has_own_gpu = has_own_gpu
        self.member = member
        self._meeting: AllReduce | None = None
        self._reduce: AllReduce | None = None
        self._learner: GradientLearner | None = None
        self._weights: Weights | None = None
        self._goes_on_from: LearningWeights | None = None

    @override
    def settings(self) -> dict[str, Any]:
        standardize = {} if self.standardize is None else {"standardize": self.standardize}
        stop = {} if self.stop is None else {"stop": f"{self.stop[0]} > {self.stop[1]:g}"}
        sequences = {} if self.seq_len is None else {"seq_len": self.seq_len}
        sizes = {"num_epochs": self.num_epochs, "minibatch_size": self.minibatch_size, **sequences}
        again = {} if self.recompute is None else {"recompute": [type(self.recompute).__name__]}
        return {**sizes, **standardize, **stop, **again}

    @override
    def for_worker(self, worker: int) -> AllReduceSGD:
        """Copy of this operator for one worker, with the worker's rank and the local rendezvous address."""
        if self.num_workers == 1:
            return self
        if self._meeting is None:
            from rlrun.engine.learner.data_parallel.all_reduce import AllReduce

            self._meeting = AllReduce(0, self.num_workers, timeout_s=self.timeout_s)
            self._address = self._meeting.offer()
        return AllReduceSGD(
            self.make_learner,
            self.num_workers,
            num_epochs=self.num_epochs,
            minibatch_size=self.minibatch_size,
            seq_len=self.seq_len,
            standardize=self.standardize,
            stop=self.stop,
            recompute=self.recompute,
            timeout_s=self.timeout_s,
            has_own_gpu=self.has_own_gpu,
            member=(worker - 1, self._address),
        )

    @override
    def begin(self) -> None:
        """Creates the worker's learner, and joins the process group."""
        self._started()

    @override
    def set_weights(self, weights: Weights) -> None:
        """Receives broadcast weights; the next update uses the scheduled values and env steps that come with them.

        The broadcast parameters are ignored, since each worker trains its own copy. The exception is a restore, which
        also broadcasts the optimizer state: the worker then loads both.
        """
        self._weights = weights
        if weights.learning is not None and weights.learning.optimizer:
            self._goes_on_from = weights.learning

    @override
    def __call__(self, item: SampleBatch) -> ReplicaUpdate:
        """Runs epochs of SGD on a batch [T, B] with `values` and `value_targets`."""
        if self._weights is None:
            raise RuntimeError("a worker started to learn before it received weights")
        learner, weights = self._started(), self._weights
        if self._goes_on_from is not None:
            learner.load_flat(self._goes_on_from.flat)
            learner.load_optimizer_state(self._goes_on_from.optimizer)
            self._goes_on_from = None
        (steps,) = self._added_up([item["valid"].sum()])
        item = self._standardized(item)
        arrange = partial(learning_rows, seq_len=self.seq_len, whole_fragments=False)
        recompute: RecomputedAdvantages | None = None
        if self.recompute is not None:
            again = (self.recompute, self._standardized)
            recompute = load_internal(PARTS["advantages of each epoch"])(item, again, arrange)
        before = learner.sgd_steps
        learner.learn(
            arrange(item),
            num_epochs=self.num_epochs,
            minibatch_size=max(self.minibatch_size // self.num_workers, 1),
            scheduled=values_at(weights.schedules, weights.env_steps + int(steps)),
            stop=self.stop,
            recompute=recompute,
        )
        flat = learner.flat()
        return ReplicaUpdate(
            steps=int(steps),
            weights_version=weights.version,
            digest=zlib.crc32(flat.tobytes()),
            values=value_moments(item).state(),
            flat=flat if self._is_first else None,
            learner={
                "optimizer": learner.optimizer_state(),
                "sgd_steps": learner.sgd_steps - before,
                "statistics": learner.take_statistics(),
            }
            if self._is_first
            else {},
        )

    def _standardized(self, item: SampleBatch) -> SampleBatch:
        """Returns a batch whose column `standardize`, if one is named, is standardized over all workers' batches."""
        if self.standardize is None:
            return item
        column, _ = standardized_together(item[self.standardize], item["valid"], self._added_up)
        return SampleBatch(item, **{self.standardize: column})

    @property
    def _is_first(self) -> bool:
        return self.member is None or self.member[0] == 0

    def _started(self) -> GradientLearner:
        """Learner of this worker; the first call creates the learner and joins the process group."""
        if self._learner is None:
            if self.member is not None:
                from rlrun.engine.learner.data_parallel.all_reduce import AllReduce

                rank, address = self.member
                backend: Backend = "nccl" if self.has_own_gpu else "gloo"
                self._reduce = AllReduce(rank, self.num_workers, backend=backend, timeout_s=self.timeout_s)
                self._reduce.join(address)
            self._learner = self.make_learner(all_reduce=self._reduce)
        return self._learner

    def _added_up(self, numbers: Iterable[float]) -> Doubles:
        """All-reduces numbers: their sums over all workers."""
        own = np.array(list(numbers), np.float64)
        if self._reduce is None:
            return own
        import torch

        total: Doubles = self._reduce(torch.from_numpy(own)).numpy()
        return total

    @override
    def state(self) -> dict[str, Any]:
        return {"learner": self._started().state()}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._started().load_state(state["learner"])

    @override
    def close(self) -> None:
        """Leaves the process group; on the driver, closes the rendezvous."""
        for member in (self._reduce, self._meeting):
            if member is not None:
                member.close()
        self._reduce, self._meeting, self._learner = None, None, None


class MirrorReplicas(Operator):
    """Copies the workers' learner state to the driver's learner, for checkpoints and evaluation.

    Inputs are pairs of worker index and `ReplicaUpdate` (a worker's copy of the learner after an update). The operator
    checks that the digests of all workers' parameters are equal, and emits the last `ReplicaUpdate` of each round.
    """

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee
        self._statistics: list[dict[str, float]] = []
        self._values = NO_VALUES

    @override
    def __call__(self, item: tuple[int | None, ReplicaUpdate]) -> Iterable[ReplicaUpdate]:
        """Loads or verifies one worker's replica: parameters from one worker, digests from the others.

        Raises:
            TrainingFailed: The workers' parameters have drifted apart.
        """
        worker, replica = item
        learner = self.trainee.learner
        self._values = self._values.merged(Moments.from_state(replica["values"]))
        if replica["flat"] is not None:
            self.trainee.lag.add(learner.weights_version, np.array(replica["weights_version"]))
            learner.load_flat(replica["flat"])
            learner.load_optimizer_state(replica["learner"]["optimizer"])
            learner.sgd_steps += replica["learner"]["sgd_steps"]
            learner.weights_version += 1
            self._statistics.append(replica["learner"]["statistics"])
        elif replica["digest"] != zlib.crc32(learner.flat().tobytes()):
            raise TrainingFailed(f"the parameters of rollout worker {worker} differ from the other workers' parameters")
        return [replica] if worker == self.trainee.workers.indices[-1] else []

    declared_metrics = tuple(metric.below("learner/") for metric in VALUE_METRICS)

    @override
    def metrics(self) -> dict[str, float]:
        taken, self._statistics = self._statistics, []
        values, self._values = self._values, NO_VALUES
        names = taken[0] if taken else {}
        means = {f"learner/{name}": float(np.mean([statistics[name] for statistics in taken])) for name in names}
        return {**means, **value_metrics(values)}


def standardized_together(
    x: NDArray[np.float32],
    valid: NDArray[np.bool_],
    added_up: Callable[[Iterable[float]], Doubles],
    epsilon: float = 1e-8,
) -> tuple[NDArray[np.float32], float]:
    """Standardizes numbers (mean 0, standard deviation 1) over the valid steps of several processes.

    Args:
        x: This process's numbers, of any shape.
        valid: Mask of the valid steps, of the same shape.
        added_up: Function that sums numbers over all processes.
        epsilon: Small number added to the standard deviation.

    Returns:
        The standardized numbers, 0 at invalid steps, and the number of valid steps in all processes.
    """
    steps, total = added_up([valid.sum(), x[valid].sum(dtype=np.float64)])
    deviations = np.where(valid, x - total / max(steps, 1), 0.0)
    (squares,) = added_up([np.square(deviations).sum()])
    return (deviations / (np.sqrt(squares / max(steps, 1)) + epsilon)).astype(np.float32), steps
