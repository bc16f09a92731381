"""Replica of a learner in a Ray actor, for data-parallel training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.learner.data_parallel.all_reduce import AllReduce
from rlrun.engine.learner.learner import LearnerFactory, Recompute


@dataclass(frozen=True)
class ReplicaConfig:
    """Settings of one replica in a group of data-parallel learners.

    Attributes:
        make_learner: Picklable learner factory.
        rank: Rank of the replica, from 0.
        num_learners: Number of replicas.
        address: Address at which the replicas meet for all-reduce.
        has_own_gpu: Whether each replica has its own GPU, so that gradients are summed on the GPUs instead of the CPU.
        timeout_s: Seconds to wait for the other processes.
    """

    make_learner: LearnerFactory
    rank: int
    num_learners: int
    address: tuple[str, int]
    has_own_gpu: bool
    timeout_s: float


class Replica:
    """Learner in a Ray actor that computes a share of every minibatch in data-parallel training."""

    def __init__(self, config: ReplicaConfig) -> None:
        self._config = config
        self._share = (config.rank, config.num_learners)
        self._all_reduce: AllReduce | None = None
        if config.num_learners > 1:
            self._all_reduce = AllReduce(
                *self._share, backend="nccl" if config.has_own_gpu else "gloo", timeout_s=config.timeout_s
            )
        self._learner = config.make_learner(all_reduce=self._all_reduce, share=self._share)

    def meet(self) -> None:
        """Joins the group of replicas; blocks until all replicas have joined."""
        if self._all_reduce is not None:
            self._all_reduce.join(self._config.address)

    def learn(
        self,
        batch: SampleBatch,
        num_epochs: int,
        minibatch_size: int,
        scheduled: dict[str, float],
        stop: tuple[str, float] | None,
        objectives: tuple[str, ...] | None = None,
        recompute: Recompute | None = None,
    ) -> int:
        """Trains on this replica's share of a batch; returns the replica's total number of minibatches so far."""
        self._learner.learn(
            batch,
            num_epochs=num_epochs,
            minibatch_size=minibatch_size,
            scheduled=scheduled,
            stop=stop,
            objectives=objectives,
            recompute=recompute,
        )
        return self._learner.sgd_steps

    def step(
        self,
        batch: SampleBatch,
        scheduled: dict[str, float],
        objectives: tuple[str, ...] | None,
        minibatches: int,
    ) -> NDArray[np.float32]:
        """Trains on this replica's share of each minibatch; returns new replay priorities of the share's rows."""
        return self._learner.step(batch, scheduled=scheduled, objectives=objectives, minibatches=minibatches)

    def apply_gradients(
        self,
        gradients: NDArray[np.float32],
        statistics: dict[str, Sequence[str]],
        scheduled: dict[str, float],
    ) -> int:
        """Updates the parameters with another learner's gradients; returns the number of minibatches learned so far."""
        self._learner.apply_gradients(gradients, statistics, scheduled=scheduled)
        return self._learner.sgd_steps

    def target_outputs(self, batch: SampleBatch) -> NDArray[np.float32] | None:
        """Computes the target network's outputs for this replica's share of the sequences; None for an empty share."""
        part, parts = self._share
        rows = np.array_split(np.arange(len(batch["valid"])), parts)[part]
        if not len(rows):
            return None
        own = slice(rows[0], rows[-1] + 1)
        return self._learner.target_outputs(batch.map(lambda leaf: leaf[own]))

    def call(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the replica's learner, given by name, and returns its result."""
        return getattr(self._learner, method)(*arguments)

    def ping(self) -> None:
        """Returns immediately, so that a caller can check that the process still answers."""

    def close(self) -> None:
        """Leaves the group of replicas."""
        if self._all_reduce is not None:
            self._all_reduce.close()
