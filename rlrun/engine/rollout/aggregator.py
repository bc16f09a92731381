"""Aggregator, a Ray actor that concatenates the fragments of a group of rollout workers into training batches.

The trial's process then receives one answer per batch instead of one per fragment, and need not concatenate arrays. The
aggregator restarts workers that fail, as the trial's process does without aggregators. Each batch includes the counts
of its fragments (env steps, episodes), so that totals do not depend on aggregators.
"""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlrun.engine.data.sample_batch import SampleBatch, concatenated
from rlrun.engine.rollout.remote_workers import RemoteWorkers
from rlrun.engine.rollout.rollout import JoinedRollouts, Rollout, with_weights_version
from rlrun.engine.rollout.worker_config import Aggregation

if TYPE_CHECKING:
    from rlrun.engine.rollout.worker import Orders


@dataclass(frozen=True)
class AggregatorConfig:
    """Settings of one aggregator, an actor that concatenates fragments of several workers; can be pickled.

    Attributes:
        index: Index of the aggregator.
        workers: Function that starts the aggregator's workers.
        aggregation: Settings of all aggregators.
        answers_within_s: Timeout after which the aggregator answers without a full batch.
    """

    index: int
    workers: Callable[[], RemoteWorkers]
    aggregation: Aggregation
    answers_within_s: float


class Aggregator:
    """Supervises a group of rollout workers, and concatenates their fragments into batches.

    A worker is asked for its next fragment once the last one has arrived, and only while the trial waits for a batch.
    The queue thus holds at most one batch and `in_flight` fragments per worker. The constructor starts the workers
    without waiting for them.
    """

    def __init__(self, config: AggregatorConfig) -> None:
        self.config = config
        self.workers = config.workers()
        self._here: deque[Rollout] = deque()
        self._rows = 0
        self._is_asking = False
        self._told_restarts = 0

    def follow(self, orders: Orders) -> None:
        """Passes new weights or env keyword arguments to all workers, which use them from their next fragment on."""
        self.workers.order(orders)

    def sample(self) -> JoinedRollouts:
        """Returns the next full batch, or a `JoinedRollouts` with batch None if the timeout ends before one is full.

        Raises:
            RlrunError: A worker raised this error.
            TrainingFailed: More workers died than may be restarted.
        """
        deadline = time.monotonic() + self.config.answers_within_s
        if not self._is_asking:
            self._is_asking = True
            for worker in [*self.workers.indices] * self.config.aggregation.in_flight:
                self.workers.request(worker)
        while self._rows < self.config.aggregation.batch_size:
            if not self._receive():
                if time.monotonic() >= deadline:
                    return self._delivered(None, [])
                self.workers.wait(deadline)
        taken, policy = self._taken(), self.config.aggregation.policy
        parts = [with_weights_version(rollout.batches[policy], rollout.weights_versions[policy]) for rollout in taken]
        return self._delivered(concatenated(parts), taken)

    def _receive(self) -> bool:
        """Receives ready fragments and requests new ones; returns whether any were ready."""
        arrived = self.workers.arrived()
        for rollout in arrived:
            self.workers.request(rollout.worker_index)
        self._here.extend(arrived)
        self._rows += sum(map(self._rows_of, arrived))
        return bool(arrived)

    def _taken(self) -> list[Rollout]:
        """Dequeues the oldest fragments that together fill a batch."""
        taken: list[Rollout] = []
        rows = 0
        while rows < self.config.aggregation.batch_size:
            taken.append(self._here.popleft())
            rows += self._rows_of(taken[-1])
        self._rows -= rows
        return taken

    def _rows_of(self, rollout: Rollout) -> int:
        batch: SampleBatch = rollout.batches[self.config.aggregation.policy]
        return batch.num_rows

    def _delivered(self, batch: SampleBatch | None, fragments: Sequence[Rollout]) -> JoinedRollouts:
        restarts = self.workers.restarts - self._told_restarts
        self._told_restarts += restarts
        told = tuple(dataclasses.replace(rollout, batches={}) for rollout in fragments)
        return JoinedRollouts(self.config.index, batch, told, restarts)

    def states(self) -> list[Any]:
        """Returns the workers' states in the order of their indices; fragments not yet delivered are not included."""
        return self.workers.states()

    def load_states(self, states: Sequence[Any], due: Sequence[int]) -> int:
        """Restores the workers' states; drops fragments that were requested or have not been delivered.

        Args:
            states: Result of `states()`.
            due: For each worker, the index (from 0) of its first fragment that has not been delivered.

        Returns:
            The number of env slots that could not be restored exactly.
        """
        self._here.clear()
        self._rows, self._is_asking = 0, False
        return self.workers.load_states(states, due)

    def close(self) -> None:
        """Ends the processes of the aggregator's workers."""
        self.workers.close()
