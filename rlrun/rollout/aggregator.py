"""Puts the fragments of a share of the workers together into batches, in an actor between them and the driver.

The driver then has one answer to take for each batch instead of one for each fragment, and no arrays to put together.
The aggregator supervises its workers as the driver would. What it delivers tells of every fragment in the batch, so
that the driver counts the same as without it.
"""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlrun.data.sample_batch import SampleBatch, concatenated
from rlrun.rollout.remote_workers import RemoteWorkers
from rlrun.rollout.rollout import JoinedRollouts, Rollout, with_weights_version

if TYPE_CHECKING:
    from rlrun.rollout.worker import Orders


@dataclass(frozen=True)
class Aggregation:
    """What the aggregators of a worker set do.

    Attributes:
        aggregators: How many there are, at most one for each worker.
        batch_size: Steps [T * B] that fill a batch.
        in_flight: Requests that each worker has at a time.
        policy: Whose batches.
    """

    aggregators: int
    batch_size: int
    in_flight: int
    policy: str


@dataclass(frozen=True)
class AggregatorConfig:
    """What an aggregator is made from; picklable.

    Attributes:
        index: Its index.
        workers: What starts its workers.
        aggregation: What it does.
        answers_within_s: Seconds after which it answers without a full batch.
    """

    index: int
    workers: Callable[[], RemoteWorkers]
    aggregation: Aggregation
    answers_within_s: float


class Aggregator:
    """Asks and supervises its workers, and hands over what they deliver batch by batch.

    A worker is asked again once its fragment is here, which happens only while a batch is asked for. So at most one
    batch and `in_flight` fragments of each worker wait here. Making one starts the workers and waits for none.
    """

    def __init__(self, config: AggregatorConfig) -> None:
        self.config = config
        self.workers = config.workers()
        self._here: deque[Rollout] = deque()
        self._rows = 0
        self._is_asking = False
        self._told_restarts = 0

    def follow(self, orders: Orders) -> None:
        """Gives all workers orders, which they follow from their next request on."""
        self.workers.order(orders)

    def sample(self) -> JoinedRollouts:
        """Returns the next full batch, or that there is none yet.

        Raises:
            RlrunError: What a worker raised, as it was.
            TrainingFailed: If more workers died than may be made anew.
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
        """Takes in the fragments that have arrived, and asks for others; returns whether there were any."""
        arrived = self.workers.arrived()
        for rollout in arrived:
            self.workers.request(rollout.worker_index)
        self._here.extend(arrived)
        self._rows += sum(map(self._rows_of, arrived))
        return bool(arrived)

    def _taken(self) -> list[Rollout]:
        """Returns the oldest fragments that fill a batch."""
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
        """Returns where the workers are, in their order; what waits here or is under way is not in it."""
        return self.workers.states()

    def load_states(self, states: Sequence[Any], due: Sequence[int]) -> int:
        """Brings the workers back to where they were; what waits here or is under way is dropped.

        Args:
            states: What `states` returned.
            due: The numbers with which the workers' undelivered fragments begin.

        Returns:
            The number of env slots that could not be brought back exactly.
        """
        self._here.clear()
        self._rows, self._is_asking = 0, False
        return self.workers.load_states(states, due)

    def close(self) -> None:
        """Ends the workers."""
        self.workers.close()
