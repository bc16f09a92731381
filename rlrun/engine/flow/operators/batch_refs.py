"""Operators on remote workers that leave large fragments in the object store or lower the worker's priority."""

from __future__ import annotations

import os

from typing_extensions import override

from rlrun.engine.actors.batch_ref import BatchRef
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves
from rlrun.engine.flow.flow import Operator, WorkerOperator

CARRIED_UP_TO_BYTES = 100_000
"""Maximum size of a fragment that is sent by value: fetching a reference blocks the receiver for milliseconds.

Ray has the same limit.
"""

YIELDED_NICENESS = 4
"""Amount added to a worker's niceness: Ray starts actors at 15, so the sum is 19, the maximum."""


class LeaveOnWorker(Operator):
    """Replaces a large fragment with a Ray reference, so that it stays in the object store of the worker's machine.

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
    """Lowers a remote worker's process priority below the learner's and replay buffer's; leaves fragments unchanged.

    Workers are always busy. Without this operator, a replay buffer process on the same cores would have to wait for
    them at each of the learner's requests.
    """

    @override
    def begin(self) -> None:
        """Lowers the priority of the worker's process by raising its niceness."""
        os.nice(YIELDED_NICENESS)

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        return item
