"""Where flows begin."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow, StatefulOperator, WorkerOperator, learns, operator_label
from rlrun.flow.nodes import ENDED, Delivered, Pending, Polled, Source, loaded_items, saved_items
from rlrun.rollout.rollout import DEFAULT_POLICY, with_weights_version

if TYPE_CHECKING:
    from rlrun.policy.weights import Weights
    from rlrun.rollout.rollout import Rollout
    from rlrun.rollout.worker_set import WorkerSet

T = TypeVar("T")
Mode = Literal["sync", "async"]


def from_items(items: Iterable[T]) -> Flow[T]:
    """Delivers the items of an iterable, which is pulled as lazily as the flow; its position is not saved."""
    return Flow(ItemSource(items))


def parallel_rollouts(
    workers: WorkerSet,
    *operators_on_workers: Callable[[Any], Any],
    mode: Mode = "sync",
    in_flight: int = 2,
    policy: str = DEFAULT_POLICY,
) -> Flow[SampleBatch]:
    """Delivers one policy's batches [T, B] from all workers, with the version of the weights that acted in each.

    With `sync` every worker is asked for one fragment, all of them are waited for, and the fragments come in the order
    of the workers. The next round is asked for when it is pulled, so that whatever ran downstream (a broadcast) came
    before it. With `async` fragments come as they are ready, and a worker that has delivered is asked again when the
    next item is pulled.

    Args:
        workers: Who samples; they count each fragment once it is here.
        operators_on_workers: What each batch passes on its worker, before it travels.
        mode: Whether a round is a barrier.
        in_flight: Requests that an asynchronous worker has at a time.
        policy: Whose batches.
    """
    if operators_on_workers:
        workers.postprocess(policy, OperatorChain(operators_on_workers))
    on_workers = tuple(operator_label(operator) for operator in operators_on_workers)
    if mode == "sync":
        return Flow(SyncRollouts(workers, policy, on_workers))
    return Flow(AsyncRollouts(workers, policy, on_workers, in_flight))


class OperatorChain:
    """Operators one after another, as a worker applies them."""

    def __init__(self, operators: Iterable[Callable[[Any], Any]]) -> None:
        """Takes them in their order."""
        self.operators = tuple(operators)
        self._sgd_s = 0.0

    def __call__(self, item: Any) -> Any:
        """Passes an item through all of them, and names the one that raises."""
        for operator in self.operators:
            began = time.perf_counter()
            try:
                item = operator(item)
            except Exception as error:
                error.add_note(f"raised by the operator {operator_label(operator)[0]} on the worker")
                raise
            if learns(operator):
                self._sgd_s += time.perf_counter() - began
        return item

    def take_sgd_s(self) -> float:
        """Returns the seconds of the operators that learn since the last call."""
        taken, self._sgd_s = self._sgd_s, 0.0
        return taken

    def for_worker(self, worker: int) -> OperatorChain:
        """Returns the chain that is sent to a worker."""
        return OperatorChain(
            operator.for_worker(worker) if isinstance(operator, WorkerOperator) else operator
            for operator in self.operators
        )

    def begin(self) -> None:
        """Lets the operators prepare themselves on the worker."""
        for operator in self.operators:
            if isinstance(operator, WorkerOperator):
                operator.begin()

    def set_weights(self, weights: Weights) -> None:
        """Tells the operators that want to know it which weights act from now on."""
        for operator in self.operators:
            if isinstance(operator, WorkerOperator):
                operator.set_weights(weights)

    def close(self) -> None:
        """Lets the operators free what they hold."""
        for operator in self.operators:
            if isinstance(operator, WorkerOperator):
                operator.close()

    def state(self) -> dict[str, Any]:
        """Returns what they remember, by position."""
        remembering = enumerate(self.operators)
        return {str(i): operator.state() for i, operator in remembering if isinstance(operator, StatefulOperator)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""
        for position, remembered in state.items():
            operator = self.operators[int(position)]
            if isinstance(operator, StatefulOperator):
                operator.load_state(remembered)


class ItemSource(Source):
    """Delivers the items of an iterable."""

    def __init__(self, items: Iterable[object]) -> None:
        """Takes the iterable."""
        super().__init__("from_items")
        self._items = iter(items)

    def next_item(self) -> Polled:
        """Returns the next item."""
        for item in self._items:
            return Delivered(item)
        return ENDED


class RolloutSource(Source):
    """What both kinds of rollouts share: fragments that are here and not pulled yet, which a checkpoint keeps."""

    source_name = "parallel_rollouts"

    def __init__(self, workers: WorkerSet, policy: str, settings: Mapping[str, Any], on_workers: Any) -> None:
        """Takes the workers, whose batches to deliver, and what the plan prints."""
        shown = {"policy": policy} if policy != DEFAULT_POLICY else {}
        super().__init__(self.source_name, {"workers": workers.num_workers or "local", **settings, **shown})
        self.on_workers = on_workers
        self.workers = workers
        self.policy = policy
        self.here: deque[Delivered] = deque()

    def receive(self, rollout: Rollout) -> None:
        """Counts a fragment and keeps its batch until it is pulled."""
        self.workers.count(rollout)
        item = rollout.batches[self.policy]
        if isinstance(item, SampleBatch):  # operators on the worker may have made something else of it
            item = with_weights_version(item, rollout.weights_versions[self.policy])
        self.here.append(Delivered(item, rollout.worker_index))

    @property
    def stateful(self) -> bool:
        """Always, because of the batches that wait."""
        return True

    def state(self) -> dict[str, Any]:
        """Returns the batches that wait."""
        return {"here": saved_items(self.here)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Gives them back."""
        self.here = deque(loaded_items(state["here"]))


class SyncRollouts(RolloutSource):
    """Rounds of one fragment from every worker."""

    def __init__(self, workers: WorkerSet, policy: str, on_workers: Any) -> None:
        """Takes the workers, whose batches to deliver, and the operators on the workers."""
        super().__init__(workers, policy, {"mode": "sync"}, on_workers)
        self._round: dict[int, Rollout] | None = None

    def next_item(self) -> Polled:
        """Returns the next batch of a finished round, or waits for the round that it has asked for."""
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

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Gives the waiting batches back; a round under way is dropped, as the workers drop their requests."""
        super().load_state(state)
        self._round = None


class AsyncRollouts(RolloutSource):
    """Fragments in the order in which they are ready.

    A worker is asked for `in_flight` fragments, and for one more whenever one of its own has been pulled. So those that
    are asked for, under way and here are never more than that, however slowly they are pulled.
    """

    def __init__(
        self,
        workers: WorkerSet,
        policy: str,
        on_workers: Any,
        in_flight: int,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Takes the workers, whose batches to deliver, the operators on the workers, and the requests of each.

        Args:
            workers: Who samples.
            policy: Whose batches.
            on_workers: Name and settings of the operators on the workers.
            in_flight: Requests that each has at a time.
            settings: What else the plan prints.
        """
        shown = {"mode": "async", "in_flight": in_flight, **(settings or {})}
        super().__init__(workers, policy, shown, on_workers)
        self.in_flight = in_flight
        self._to_ask: list[int] | None = None

    def next_item(self) -> Polled:
        """Returns the next batch that is here, after asking for another one in place of the last."""
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
        """Receives what has arrived."""
        for rollout in self.workers.arrived():
            self.receive(rollout)

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Gives the waiting batches back; what was in flight is asked for again."""
        super().load_state(state)
        wanted = Counter(dict.fromkeys(self.workers.deliverers, self.in_flight))
        wanted.subtract(batch.worker for batch in self.here if batch.worker is not None)
        self._to_ask = list(wanted.elements())
