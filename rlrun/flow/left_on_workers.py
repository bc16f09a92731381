"""Fragments that stay on the machine they were collected on, while only references to them travel."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import leaves
from rlrun.flow.flow import Flow, Operator, WorkerOperator, operator_label
from rlrun.flow.nodes import Delivered
from rlrun.flow.sources import AsyncRollouts, OperatorChain
from rlrun.rollout.rollout import DEFAULT_POLICY

if TYPE_CHECKING:
    from rlrun.rollout.worker_set import WorkerSet

CARRIED_UP_TO_BYTES = 100_000
"""A fragment up to this size travels in its worker's answer: to fetch one by reference takes milliseconds, in which the
receiver does nothing else. Ray draws the line at the same size."""

YIELDED_NICENESS = 4
"""By how much a worker is nicer than shards and learner: as far as Linux goes above the 15 that Ray gives actors."""


@dataclass(frozen=True)
class LeftOnWorker:
    """A fragment that stays in the object store of its worker's machine until somebody takes it.

    Attributes:
        reference: Ray's reference to it.
        steps: Env steps in it.
    """

    reference: Any
    steps: int


class LeaveOnWorker(Operator):
    """Has a large fragment stay where it was collected, and only a reference to it travel; runs on a remote worker."""

    def __init__(self, carried_up_to_bytes: int = CARRIED_UP_TO_BYTES) -> None:
        """Takes the size up to which a fragment travels itself."""
        self.carried_up_to_bytes = carried_up_to_bytes

    def __call__(self, item: SampleBatch) -> SampleBatch | LeftOnWorker:
        """Returns where it lies, or the fragment as it is if it is small."""
        if sum(leaf.nbytes for leaf in leaves(item)) <= self.carried_up_to_bytes:
            return item
        import ray

        return LeftOnWorker(ray.put(item), int(item["valid"].sum()))


class YieldToLearning(WorkerOperator):
    """Has a remote worker make room on its cores for whoever learns or keeps the replay; not felt with cores to spare.

    Workers never stop by themselves, so a shard that shares their cores would have to wait for its turn behind each of
    them whenever the learner asks it for something.
    """

    def begin(self) -> None:
        """Makes the worker's process nicer."""
        os.nice(YIELDED_NICENESS)

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the fragment as it is."""
        return item


def held(fragment: LeftOnWorker) -> SampleBatch | None:
    """Returns a fragment that was left on its worker; None if it was lost with that one."""
    import ray
    from ray.exceptions import ObjectLostError

    try:
        batch: SampleBatch = ray.get(fragment.reference)
    except ObjectLostError:
        return None
    return batch


def rollouts_left_on_workers(
    workers: WorkerSet, *operators_on_workers: Callable[[Any], Any], in_flight: int = 2
) -> Flow[SampleBatch | LeftOnWorker]:
    """Delivers where the fragments of remote workers lie, or small ones themselves, as they are ready.

    Args:
        workers: Who samples; they count each fragment once it, or its place, is known.
        operators_on_workers: What each batch passes on its worker.
        in_flight: Requests that a worker has at a time.
    """
    chain = OperatorChain((*operators_on_workers, LeaveOnWorker()))
    workers.postprocess(DEFAULT_POLICY, chain)
    on_workers = tuple(operator_label(operator) for operator in chain.operators)
    return Flow(RolloutsLeftOnWorkers(workers, DEFAULT_POLICY, on_workers, in_flight))


class RolloutsLeftOnWorkers(AsyncRollouts):
    """Where fragments lie, in the order in which they are ready."""

    def state(self) -> dict[str, Any]:
        """Returns the fragments themselves that wait, since a reference outlives no process."""
        for item in list(self.here):
            if isinstance(item.value, LeftOnWorker):
                batch = held(item.value)
                self.here.popleft()
                self.here.extend([] if batch is None else [Delivered(batch, item.worker)])
            else:
                self.here.rotate(-1)
        return super().state()
