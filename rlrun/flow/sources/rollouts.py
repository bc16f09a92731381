"""Sources of rollouts: fragments in synchronous rounds, or asynchronously."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import override

from rlrun.actors.batch_ref import BatchRef
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.nodes import Delivered, Pending, Polled, Source, loaded_items, saved_items
from rlrun.rollout.rollout import DEFAULT_POLICY, with_weights_version

if TYPE_CHECKING:
    from rlrun.flow.collecting_workers import CollectingWorkers
    from rlrun.rollout.rollout import Rollout

RolloutMode = Literal["sync", "async"]
"""Whether fragments are delivered in synchronous rounds, or as they are ready."""


class RolloutSource(Source):
    """Source of rollouts, with a queue of received fragments, which checkpoints hold.

    Items are batches of one policy, or dicts of batches by policy.
    """

    source_name = "parallel_rollouts"

    def __init__(
        self, workers: CollectingWorkers, policy: str | Sequence[str], settings: Mapping[str, Any], on_workers: Any
    ) -> None:
        shown: dict[str, Any] = {}
        if not isinstance(policy, str):
            shown["policies"] = list(policy)
        elif policy != DEFAULT_POLICY:
            shown["policy"] = policy
        super().__init__(self.source_name, {"workers": workers.num_workers or "local", **settings, **shown})
        self.on_workers = on_workers
        self.workers = workers
        self.policy = policy
        self.here: deque[Delivered] = deque()

    def receive(self, rollout: Rollout) -> None:
        """Counts a fragment and queues its batch."""
        self.workers.counts.count(rollout)
        if isinstance(self.policy, str):
            item = self._item(rollout, self.policy)
        else:
            item = {policy: self._item(rollout, policy) for policy in self.policy}
        self.here.append(Delivered(item, rollout.worker_index))

    def _item(self, rollout: Rollout, policy: str) -> Any:
        item = rollout.batches[policy]
        if isinstance(item, SampleBatch):  # operators on the worker may have other outputs
            return with_weights_version(item, rollout.weights_versions[policy])
        return item

    @property
    @override
    def stateful(self) -> bool:
        """Always: the batches that wait are part of its state."""
        return True

    @override
    def state(self) -> dict[str, Any]:
        """Returns the batches that wait; references are fetched, since they end with their process."""
        batches = (fetched(delivered) for delivered in self.here)
        return {"here": saved_items(delivered for delivered in batches if delivered.value is not None)}

    @override
    def load_state(self, state: Mapping[str, Any]) -> None:
        self.here = deque(loaded_items(state["here"]))


def fetched(delivered: Delivered) -> Delivered:
    """Replaces a reference by its batch, or by None if it was lost together with its worker."""
    value = delivered.value
    return Delivered(value.fetch(), delivered.worker) if isinstance(value, BatchRef) else delivered


class SyncRollouts(RolloutSource):
    """Synchronous rounds of one fragment of every worker."""

    def __init__(self, workers: CollectingWorkers, policy: str | Sequence[str], on_workers: Any) -> None:
        super().__init__(workers, policy, {"mode": "sync"}, on_workers)
        self._round: dict[int, Rollout] | None = None

    @override
    def next_item(self) -> Polled:
        """Returns the next batch of a finished round; else requests a round, or waits for it."""
        if self.here:
            return self.here.popleft()
        if self._round is None:
            for worker in self.workers.indices:
                self.workers.request(worker)
            self._round = {}
        self._round.update((rollout.worker_index, rollout) for rollout in self.workers.arrived())
        if len(self._round) < len(self.workers.indices):
            return Pending(*self.workers.awaited(), barrier=True)
        for worker in self.workers.indices:
            self.receive(self._round[worker])
        self._round = None
        return self.here.popleft()

    @override
    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the waiting batches; an unfinished round is dropped, as the workers drop their requests."""
        super().load_state(state)
        self._round = None


class AsyncRollouts(RolloutSource):
    """Asynchronous fragments, in the order in which they are ready.

    `in_flight` fragments are requested of each worker, and one more whenever one of its own was pulled. So its
    requested and waiting fragments are never more than that, however slowly they are pulled.
    """

    def __init__(
        self,
        workers: CollectingWorkers,
        policy: str | Sequence[str],
        on_workers: Any,
        in_flight: int,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        shown = {"mode": "async", "in_flight": in_flight, **(settings or {})}
        super().__init__(workers, policy, shown, on_workers)
        self.in_flight = in_flight
        self._to_ask: list[int] | None = None

    @override
    def next_item(self) -> Polled:
        """Requests a fragment in place of the last one pulled, and returns the next batch that is ready."""
        for worker in list(self.workers.deliverers) * self.in_flight if self._to_ask is None else self._to_ask:
            self.workers.request(worker)
        self._to_ask = []
        if not self.here:
            self.receive_all()
        if not self.here:
            return Pending(*self.workers.awaited())
        delivered = self.here.popleft()
        self._to_ask += [delivered.worker] if delivered.worker is not None else []
        return delivered

    def receive_all(self) -> None:
        """Receives the fragments that have arrived."""
        for rollout in self.workers.arrived():
            self.receive(rollout)

    @property
    @override
    def unsaved(self) -> str:
        """Reason why a resume is not exact: fragments in progress on remote workers."""
        return "fragments in progress are collected again" if self.workers.num_workers else ""

    @override
    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the waiting batches; fragments in flight are requested again."""
        super().load_state(state)
        wanted = Counter(dict.fromkeys(self.workers.deliverers, self.in_flight))
        wanted.subtract(batch.worker for batch in self.here if batch.worker is not None)
        self._to_ask = list(wanted.elements())
