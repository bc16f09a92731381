"""Operators that remote workers run, to leave large fragments in their object store, and to lower their priority."""

from __future__ import annotations

import os

from typing_extensions import override

from rlrun.engine.actors.batch_ref import BatchRef
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves
from rlrun.engine.flow.flow import Operator, WorkerOperator

CARRIED_UP_TO_BYTES = 100_000
"""Greatest size of a fragment that is sent in its worker's answer: a fetch by reference blocks the receiver for
milliseconds. Ray has the same limit."""

YIELDED_NICENESS = 4
"""Niceness of a worker relative to shards and learner: up to 19, the highest, from the 15 that Ray gives actors."""


class LeaveOnWorker(Operator):
    """Replaces a large fragment by a Ray reference, so that it stays in the object store of the worker's machine.

    Args:
        carried_up_to_bytes: Maximum size in bytes of fragments that are sent directly.
    """

    def __init__(self, carried_up_to_bytes: int = CARRIED_UP_TO_BYTES) -> None:
        self.carried_up_to_bytes = carried_up_to_bytes

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch | BatchRef:
        """Returns a Ray object reference to a large fragment; a small fragment is returned unchanged."""
        if sum(leaf.nbytes for leaf in leaves(item)) <= self.carried_up_to_bytes:
            return item
        import ray

        return BatchRef(ray.put(item), int(item["valid"].sum()))


class LowerProcessPriority(WorkerOperator):
    """Lowers a remote worker's process priority below that of learner and replay buffer; leaves fragments unchanged.

    Workers are always busy. Without this operator, a process of the replay buffer on the same cores would have to wait
    for them at each request of the learner.
    """

    @override
    def begin(self) -> None:
        """Lowers the priority of the worker's process, by a higher niceness."""
        os.nice(YIELDED_NICENESS)

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        return item
