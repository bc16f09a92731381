"""Fragments left where they were collected, and workers that make room for whoever learns."""

from __future__ import annotations

import os

from typing_extensions import override

from rlrun.actors.batch_ref import BatchRef
from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import leaves
from rlrun.flow.flow import Operator, WorkerOperator

CARRIED_UP_TO_BYTES = 100_000
"""A fragment up to this size travels in its worker's answer: to fetch one by reference takes milliseconds, in which the
receiver does nothing else. Ray draws the line at the same size."""

YIELDED_NICENESS = 4
"""By how much a worker is nicer than shards and learner: as far as Linux goes above the 15 that Ray gives actors."""


class LeaveOnWorker(Operator):
    """Has a large fragment stay where it was collected, and only a reference to it travel; runs on a remote worker.

    Args:
        carried_up_to_bytes: The size up to which a fragment travels itself.
    """

    def __init__(self, carried_up_to_bytes: int = CARRIED_UP_TO_BYTES) -> None:
        self.carried_up_to_bytes = carried_up_to_bytes

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch | BatchRef:
        """Returns a reference to the fragment, or the fragment as it is if it is small."""
        if sum(leaf.nbytes for leaf in leaves(item)) <= self.carried_up_to_bytes:
            return item
        import ray

        return BatchRef(ray.put(item), int(item["valid"].sum()))


class LowerProcessPriority(WorkerOperator):
    """Has a remote worker make room on its cores for whoever learns or keeps the replay; not felt with cores to spare.

    Workers never stop by themselves, so a shard that shares their cores would have to wait for its turn behind each of
    them whenever the learner asks it for something.
    """

    @override
    def begin(self) -> None:
        """Makes the worker's process nicer."""
        os.nice(YIELDED_NICENESS)

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        return item
