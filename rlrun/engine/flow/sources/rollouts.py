"""Sources of dataflows that deliver workers' fragments, in synchronous rounds or in the order of completion."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import override

from rlrun.engine.actors.batch_ref import BatchRef
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.nodes import Delivered, Pending, Polled, Source, loaded_items, saved_items
from rlrun.engine.rollout.rollout import DEFAULT_POLICY, Rollout, with_weights_version

if TYPE_CHECKING:
    from rlrun.engine.rollout.worker_set import WorkerSet

RolloutMode = Literal["sync", "async"]
"""Collection mode: synchronous rounds, or asynchronous delivery in order of completion."""


class RolloutSource(Source):
    """Base class of sources that deliver fragments of rollout workers.

    Checkpoints hold the fragments that have been received but not pulled.

    Items are batches of one policy, or dicts of batches by policy.
    """

    def __init__(
        self,
        workers: WorkerSet,
        policy: str | Sequence[str],
        settings: Mapping[str, Any],
        on_workers: Any,
    ) -> None:
        shown: dict[str, Any] = {}
        if not isinstance(policy, str):
            shown["policies"] = list(policy)
        elif policy != DEFAULT_POLICY:
            shown["policy"] = policy
        acting = {} if workers.served is None else {"inference": str(workers.served)}
        described = {"workers": workers.num_workers or "local", **acting, **settings, **shown}
        super().__init__("parallel_rollouts", described)
        self.on_workers = on_workers
        self.workers = workers
        self._is_joint = not isinstance(policy, str)
        self._policies = (policy,) if isinstance(policy, str) else tuple(policy)
        self.here: deque[Delivered] = deque()

    def receive(self, rollout: Rollout) -> None:
        """Adds a fragment from a worker to the counters, and queues its batch."""
        self.workers.counts.count(rollout)
        items = {}
        for policy in self._policies:
            items[policy] = item = rollout.batches[policy]
            if type(item) is SampleBatch:  # operators on the worker may return other types
                items[policy] = item = with_weights_version(item, rollout.weights_versions[policy])
        self.here.append(Delivered(items if self._is_joint else item, rollout.worker_index))

    @property
    @override
    def stateful(self) -> bool:
        """Always true: checkpoints save the batches that have not been pulled yet."""
        return True

    @override
    def state(self) -> dict[str, Any]:
        """Returns the queued batches, with Ray references resolved to the batches themselves."""
        batches = (fetched(delivered) for delivered in self.here)
        return {"here": saved_items(delivered for delivered in batches if delivered.value is not None)}

    @override
    def load_state(self, state: Mapping[str, Any]) -> None:
        self.here = deque(loaded_items(state["here"]))


def fetched(delivered: Delivered) -> Delivered:
    """Returns the batch of a Ray reference; None if the batch was lost with its worker."""
    value = delivered.value
    return Delivered(value.fetch(), delivered.worker) if isinstance(value, BatchRef) else delivered


class SyncRollouts(RolloutSource):
    """Source that delivers fragments in rounds, each with one fragment from every worker or from the fastest workers.

    If only the fastest workers are awaited, the fragment of a worker that misses a round is dropped when it arrives,
    and the worker then collects its next fragment for the current round.
    """

    def __init__(self, workers: WorkerSet, policy: str | Sequence[str], on_workers: Any) -> None:
        super().__init__(workers, policy, {"mode": "sync"}, on_workers)
        self._round: dict[int, Rollout] | None = None
        self._late: set[int] = set()

    @override
    def next_item(self) -> Polled:
        """Returns the next batch of a complete round of fragments.

        If no round is complete, requests the missing fragments and returns the conditions to wait for.
        """
        if self.here:
            return self.here.popleft()
        started, round_ = self.workers.started, self._round
        if round_ is None:
            for worker in self.workers.indices:
                if worker not in self._late:
                    started.request(worker)
            self._round = round_ = {}
        for rollout in started.arrived():
            worker = rollout.worker_index
            if worker in self._late:  # a fragment of an earlier round
                self._late.remove(worker)
                self.workers.counts.fragments_left_out += 1
                started.request(worker)
            else:
                round_[worker] = rollout
        if len(round_) < self.workers.fragments_per_round:
            return Pending(*started.awaited(), barrier=True)
        for worker in self.workers.indices:
            if worker in round_:
                self.receive(round_[worker])
            else:
                self._late.add(worker)
        self._round = None
        return self.here.popleft()

    @override
    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the queued batches from the result of `state()`; an incomplete round is collected again."""
        super().load_state(state)
        self._round = None
        self._late = set()


class AsyncRollouts(RolloutSource):
    """Source that delivers each fragment as soon as its worker has collected it.

    For each worker, `in_flight` fragments are requested or queued at any time: a new one is requested whenever one has
    been pulled. This bounds the queue even if the consumer is slow.

    Args:
        workers: The workers.
        policy: Name of the policy whose batches are delivered, or names of several policies.
        on_workers: Operators that workers apply to fragments, for the plan; see `OperatorChain.described`.
        in_flight: Number of fragments requested ahead of time.
    """

    def __init__(self, workers: WorkerSet, policy: str | Sequence[str], on_workers: Any, in_flight: int) -> None:
        super().__init__(workers, policy, {"mode": "async", "in_flight": in_flight}, on_workers)
        self.in_flight = in_flight
        self._to_ask: list[int] | None = None

    @override
    def next_item(self) -> Polled:
        """Requests a fragment to replace the one pulled last, and returns the next batch that is ready."""
        for worker in list(self.workers.indices) * self.in_flight if self._to_ask is None else self._to_ask:
            self.workers.started.request(worker)
        self._to_ask = []
        if not self.here:
            self.receive_all()
        if not self.here:
            return Pending(*self.workers.started.awaited())
        delivered = self.here.popleft()
        self._to_ask += [delivered.worker] if delivered.worker is not None else []
        return delivered

    def receive_all(self) -> None:
        """Receives the fragments that have arrived."""
        for rollout in self.workers.started.arrived():
            self.receive(rollout)

    @property
    @override
    def unsaved(self) -> str:
        """Reason why a resumed run would differ: remote workers collect unfinished fragments again; "" if none do."""
        return "fragments in progress are collected again" if self.workers.num_workers else ""

    @override
    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the queued batches from the result of `state()`; requests unfinished fragments again."""
        super().load_state(state)
        known = self.workers.indices
        self.here = deque(Delivered(item.value, item.worker if item.worker in known else None) for item in self.here)
        wanted = Counter(dict.fromkeys(known, self.in_flight))
        wanted.subtract(batch.worker for batch in self.here if batch.worker is not None)
        self._to_ask = list(wanted.elements())
