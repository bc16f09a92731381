"""Rollouts by way of aggregators: a tree whose leaves are the workers, whose root is the driver.

Plain asynchronous rollouts cost the driver an answer, a question and often a message with weights for every fragment.
With aggregators between them it has those for every batch: fragments travel from a worker to its aggregator and are put
together there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow
from rlrun.flow.nodes import Delivered
from rlrun.flow.sources import AsyncRollouts, parallel_rollouts
from rlrun.rollout.rollout import DEFAULT_POLICY

if TYPE_CHECKING:
    from rlrun.rollout.worker_set import WorkerSet


def aggregated_rollouts(
    workers: WorkerSet,
    *,
    aggregators: int,
    batch_size: int,
    in_flight: int = 2,
    policy: str = DEFAULT_POLICY,
) -> Flow[SampleBatch]:
    """Delivers batches of at least so many steps, each put together by one of several actors from its own workers.

    The fragments, and what they count, are those of asynchronous `parallel_rollouts`. The worker of such a batch, for
    operators such as `SendWeights`, is the aggregator, and weights that are sent to it go on to all of its workers.

    Who is lost is made anew, and counts as a restart. With a worker goes the fragment that it was working on. With an
    aggregator go its workers as well, and what had not been delivered: at most the batches it was asked for and the
    fragments in flight. Workers made anew go on with the fragments that are due.

    Args:
        workers: Who samples; the local worker, or a number of 0 aggregators, gives fragments as they are.
        aggregators: How many actors there are in between; they need no CPUs of their own. No more than workers start.
        batch_size: Steps [T * B], valid or not, that fill a batch.
        in_flight: Requests that each worker has at a time, and each aggregator.
        policy: Whose batches.
    """
    used = min(aggregators, workers.num_workers)
    if not used:
        return parallel_rollouts(workers, mode="async", in_flight=in_flight, policy=policy)
    workers.gather(used, batch_size, in_flight, policy)
    return Flow(AggregatedRollouts(workers, policy, in_flight, {"aggregators": used, "batch_size": batch_size}))


class AggregatedRollouts(AsyncRollouts):
    """Batches of aggregators in the order in which they are ready."""

    source_name = "aggregated_rollouts"

    def __init__(self, workers: WorkerSet, policy: str, in_flight: int, settings: dict[str, Any]) -> None:
        """Takes the gathered workers, whose batches to deliver, the requests of each, and what else the plan prints."""
        super().__init__(workers, policy, (), in_flight, settings)

    def receive_all(self) -> None:
        """Counts the fragments of the batches that have arrived, and asks those again whose batch is not full yet."""
        for joined in self.workers.joined():
            for rollout in joined.fragments:
                self.workers.count(rollout)
            if joined.batch is None:
                self.workers.request(joined.aggregator)
            else:
                self.here.append(Delivered(joined.batch, joined.aggregator))

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Gives the waiting batches back; those of an aggregator that there is none of any more come from nobody."""
        super().load_state(state)
        known = self.workers.deliverers
        self.here = deque(Delivered(value, worker if worker in known else None) for value, worker in self.here)
