"""Nodes of the graph behind a flow, which are polled for items; internal to `flow/`.

`poll()` returns a node's next item, and never waits. The result is `Delivered`, `ENDED`, or `Pending` if no item is
ready, with the Ray references and the deadline to wait for. The flow waits for the conditions of all nodes together.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch

DUPLICATE_LEAD = 8
"""Default number of items by which one copy of a duplicated stream may be ahead of another."""


@final
@dataclass(slots=True)  # created several times for each item; a frozen instance would take three times as long
class Delivered:
    """Result of a poll with an item: the item, and the index of the last worker that contributed to it, or None."""

    value: Any
    worker: int | None = None


@dataclass(frozen=True)
class Pending:
    """Result of a poll when no item is ready: the conditions to wait for before the next poll.

    Attributes:
        references: Ray references to wait for; any one of them suffices.
        deadline: Latest time of the next poll, on the clock of `time.monotonic`.
        barrier: Whether the whole flow has to wait for these conditions, even if other branches could continue.
        reasons: Descriptions of the conditions, for the error message if the flow can never continue.
        progressed: Whether another part of the flow processed items during this poll; the flow is then polled again at
            once.
    """

    references: tuple[Any, ...] = ()
    deadline: float = math.inf
    barrier: bool = False
    reasons: tuple[str, ...] = ()
    progressed: bool = False

    def joined(self, other: Pending) -> Pending:
        """Combines into one object the conditions that two parts of a flow are waiting for."""
        return Pending(
            self.references + other.references,
            min(self.deadline, other.deadline),
            self.barrier or other.barrier,
            self.reasons + other.reasons,
            self.progressed or other.progressed,
        )


class Ended:
    """Result of a poll at the end of a finite stream."""


ENDED = Ended()
Polled = Delivered | Pending | Ended


class Memory(Protocol):
    """Interface of objects whose state is saved in checkpoints, such as operators with state."""

    @property
    def unsaved(self) -> str:
        """Reason why a run resumed from a checkpoint taken now would differ from this run; "" if there is none."""
        ...

    def state(self) -> dict[str, Any]:
        """Returns the object's state for checkpoints."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the object from the result of `state()`."""
        ...


class Node(ABC):
    """Node of the graph behind a flow: a source, an operator, or a join of several flows.

    Attributes:
        kind: How the node processes items, for the printed plan.
        name: Name of the node's operator.
        settings: The operator's settings, for the printed plan.
        inputs: Upstream nodes, from which items are pulled.
        seconds: Time spent in this node, excluding upstream nodes.
        items: Number of items processed.
        learns: Whether the node runs SGD, so that time profiles count its time as SGD.
        spans: (Start, end) of the operator's calls, on the clock of `time.perf_counter`; None if they are not recorded.
        on_workers: For a source of rollouts, name and settings of each operator that the workers apply.
    """

    kind = ""
    on_workers: tuple[tuple[str, dict[str, Any]], ...] = ()

    def __init__(self, name: str, settings: Mapping[str, Any] | None = None, inputs: Sequence[Node] = ()) -> None:
        self.name = name
        self.settings = dict(settings or {})
        self.inputs = tuple(inputs)
        self.seconds = 0.0
        self.items = 0
        self.learns = False
        self.spans: list[tuple[float, float]] | None = None

    def pull_from(self, node: Node, *, instead_of: Node) -> None:
        """Replaces the input `instead_of` of this node with another node; does nothing if there is no such input."""
        self.inputs = tuple(node if own is instead_of else own for own in self.inputs)

    def spend(self, began: float, ended: float) -> None:
        """Adds the time between two readings of `time.perf_counter` to the time spent in this node."""
        self.seconds += ended - began
        if self.spans is not None:
            self.spans.append((began, ended))

    @abstractmethod
    def poll(self) -> Polled:
        """Returns the next item, or the conditions to wait for; never blocks."""

    @property
    def stateful(self) -> bool:
        """Whether this node has state to save in checkpoints."""
        return False

    def state(self) -> dict[str, Any]:
        """Returns the node's state, for checkpoints."""
        return {}

    @property
    def unsaved(self) -> str:
        """Reason why a run resumed from a checkpoint taken now would differ from this run; "" if there is none."""
        return ""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the node from the result of `state()`; does nothing by default."""
        return

    def close(self) -> None:
        """Releases the node's resources, such as processes; does nothing by default."""
        return


class Source(Node):
    """Graph node without inputs; the method `next_item` of a subclass creates or receives the items."""

    kind = "source"

    @abstractmethod
    def next_item(self) -> Polled:
        """Returns the next item, or the conditions to wait for; never blocks."""

    @override
    def poll(self) -> Polled:
        """Returns the result of `next_item`, and records the elapsed time."""
        began = time.perf_counter()
        polled = self.next_item()
        ended = time.perf_counter()
        self.seconds += ended - began
        if self.spans is not None:
            self.spans.append((began, ended))
        self.items += type(polled) is Delivered
        return polled


class OperatorNode(Node):
    """Graph node that applies an operator to each item of its input.

    Attributes:
        operator: The operator.
        memory: The operator, as an object whose state is saved in checkpoints; None for a stateless operator.
        apply: Function applied to each item.
        pending: Function that returns the condition to wait for before an item is pulled; None if the operator is
            always ready.
    """

    pending: Callable[[], Pending | None] | None = None

    def __init__(
        self,
        upstream: Node,
        operator: Callable[[Any], Any],
        memory: Memory | None,
        name: str,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name, settings, (upstream,))
        self.operator = operator
        self.memory = memory
        self.apply = operator

    @property
    @override
    def stateful(self) -> bool:
        """Whether the operator has state to save in checkpoints."""
        return self.memory is not None

    @override
    def state(self) -> dict[str, Any]:
        return {} if self.memory is None else {"operator": self.memory.state()}

    @property
    @override
    def unsaved(self) -> str:
        return "" if self.memory is None else self.memory.unsaved

    @override
    def load_state(self, state: Mapping[str, Any]) -> None:
        if self.memory is not None:
            self.memory.load_state(state["operator"])

    def pull(self) -> Polled:
        """Polls the upstream node for the operator's next input, if the operator is ready for one."""
        if self.pending is not None and (pending := self.pending()) is not None:
            return pending
        return self.inputs[0].poll()

    def call(self, item: Any) -> Any:
        """Applies the operator to an item and measures the time; adds the operator's name to exceptions."""
        began = time.perf_counter()
        try:
            result = self.apply(item)
        except Exception as error:
            self.blame(error, began)
            raise
        self.spend(began, time.perf_counter())
        self.items += 1
        return result

    def blame(self, error: Exception, began: float) -> None:
        """Adds the operator's name to an exception that it raised, and counts the time since `began` as the node's.

        Raises:
            RuntimeError: The exception is a StopIteration, which would look like the end of the stream.
        """
        self.spend(began, time.perf_counter())
        if isinstance(error, StopIteration):
            raise RuntimeError(f"the operator '{self.name}' raised StopIteration") from error
        error.add_note(f"raised by the operator '{self.name}'")


class ForEach(OperatorNode):
    """Graph node that applies an operator with one output per item (map)."""

    kind = "for_each"

    _chain: tuple[ForEach, ...] | None = None

    @override
    def poll(self) -> Polled:
        """Returns the operator's result for the next item of its input.

        For speed, `ForEach` and `ZipWithWorker` nodes directly upstream are applied here instead of being polled, and
        one reading of the clock serves as the end of one operator and the start of the next.
        """
        chain = self._chain = self._chain or self._linked()
        node = chain[0]
        if node.pending is not None and (pending := node.pending()) is not None:
            return pending
        upstream = node.inputs[0]
        is_zipped = type(upstream) is ZipWithWorker
        polled = upstream.inputs[0].poll() if is_zipped else upstream.poll()
        if type(polled) is not Delivered:
            return polled
        value, now = polled.value, time.perf_counter
        if is_zipped:
            upstream.items += 1
            value = polled.worker, value
        began = now()
        try:
            for node in chain:
                value = node.apply(value)
                ended = now()
                node.seconds += ended - began
                if node.spans is not None:
                    node.spans.append((began, ended))
                node.items += 1
                began = ended
        except Exception as error:
            node.blame(error, began)
            raise
        return polled if value is polled.value else Delivered(value, polled.worker)

    def _linked(self) -> tuple[ForEach, ...]:
        """Returns this node, preceded by those `ForEach` nodes directly upstream whose successors never wait."""
        before = self.inputs[0]
        return (*before._linked(), self) if isinstance(before, ForEach) and self.pending is None else (self,)

    @override
    def pull_from(self, node: Node, *, instead_of: Node) -> None:
        super().pull_from(node, instead_of=instead_of)
        self._chain = None


class Filter(OperatorNode):
    """Graph node that passes on only the items for which a predicate holds."""

    kind = "filter"

    @override
    def poll(self) -> Polled:
        """Returns the next item for which the predicate holds."""
        while isinstance(polled := self.pull(), Delivered):
            if self.call(polled.value):
                return polled
        return polled


class Combine(OperatorNode):
    """Graph node that applies an operator with any number of outputs per item (flat map).

    Checkpoints hold the outputs that are queued.
    """

    kind = "combine"

    def __init__(
        self,
        upstream: Node,
        operator: Callable[[Any], Iterable[Any]],
        memory: Memory | None,
        name: str,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(upstream, operator, memory, name, settings)
        self.apply = lambda item: list(operator(item))  # so that a generator's time is measured here
        self._ready: deque[Delivered] = deque()

    @override
    def poll(self) -> Polled:
        """Returns the next output of the operator, after applying it to further items if none is queued."""
        while not self._ready:
            polled = self.pull()
            if not isinstance(polled, Delivered):
                return polled
            self._ready.extend(Delivered(value, polled.worker) for value in self.call(polled.value))
        return self._ready.popleft()

    @property
    @override
    def stateful(self) -> bool:
        """Always true: checkpoints save the outputs that are queued."""
        return True

    @override
    def state(self) -> dict[str, Any]:
        """Returns the operator's state and the queued outputs."""
        return {**super().state(), "ready": saved_items(self._ready)}

    @override
    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        self._ready = deque(loaded_items(state["ready"]))


class ZipWithWorker(Node):
    """Graph node that maps each item to a pair of worker index and item."""

    kind = "zip_with_worker"

    def __init__(self, upstream: Node) -> None:
        super().__init__("zip_with_worker", inputs=(upstream,))

    @override
    def poll(self) -> Polled:
        """Returns the next pair of worker index and item."""
        polled = self.inputs[0].poll()
        if type(polled) is not Delivered:
            return polled
        self.items += 1
        return Delivered((polled.worker, polled.value), polled.worker)


class FollowedBy(Node):
    """Graph node that lets a second flow process all of its ready items before each item of the first flow."""

    kind = "followed_by"

    def __init__(self, upstream: Node, other: Node) -> None:
        super().__init__("followed_by", {"output": [0]}, (upstream, other))

    @override
    def poll(self) -> Polled:
        """Lets the other flow process all of its ready items, and returns the next item of the first flow."""
        polled = self.inputs[0].poll()
        if type(polled) is Delivered:
            self.items += 1
            while type(other := self.inputs[1].poll()) is Delivered or (type(other) is Pending and other.progressed):
                pass
        return polled


class Duplicate(Node):
    """Graph node that lets several `Copy` nodes each deliver all items of a stream; queues items for slower ones."""

    kind = "duplicate"

    def __init__(self, upstream: Node, copies: int, lead: int) -> None:
        shown = {} if lead == DUPLICATE_LEAD else {"lead": lead}
        super().__init__("duplicate", {"copies": copies, **shown}, (upstream,))
        self.lead = lead
        self._waiting: list[deque[Delivered]] = [deque() for _ in range(copies)]

    @override
    def poll(self) -> Polled:
        """Always raises AssertionError, since items are pulled by `poll_copy` instead."""
        raise AssertionError("pull items from the copies of a duplicated flow, not from the original")

    def poll_copy(self, copy: int) -> Polled:
        """Returns the next item for one of the copies, or `Pending` if that copy is `lead` items ahead of another."""
        own = self._waiting[copy]
        if own:
            return own.popleft()
        if max(map(len, self._waiting)) >= self.lead:
            return Pending(
                reasons=(
                    f"a copy made by duplicate() is {self.lead} items ahead of another copy that is not being pulled",
                )
            )
        polled = self.inputs[0].poll()
        if isinstance(polled, Delivered):
            self.items += 1
            for index, waiting in enumerate(self._waiting):
                if index != copy:
                    waiting.append(polled)
        return polled

    @property
    @override
    def stateful(self) -> bool:
        """Always true: checkpoints save the queued items, which some copies have not pulled yet."""
        return True

    @override
    def state(self) -> dict[str, Any]:
        """Returns the longest queue and the length of each queue; shorter queues hold the last items of the longest."""
        longest = max(self._waiting, key=lambda waiting: len(waiting))
        return {"items": saved_items(longest), "lengths": [len(waiting) for waiting in self._waiting]}

    @override
    def load_state(self, state: Mapping[str, Any]) -> None:
        items = loaded_items(state["items"])
        self._waiting = [deque(items[len(items) - length :]) for length in state["lengths"]]


class Copy(Node):
    """Graph node that delivers all items of a stream; several such nodes share the stream through a `Duplicate`."""

    kind = "copy"

    def __init__(self, duplicate: Duplicate, index: int) -> None:
        super().__init__("copy", {"index": index}, (duplicate,))
        self.duplicate = duplicate
        self.index = index

    @override
    def poll(self) -> Polled:
        return self.duplicate.poll_copy(self.index)


def saved_items(items: Iterable[Delivered]) -> list[dict[str, Any]]:
    """Converts queued items of a flow to plain data for a checkpoint.

    Items must be batches or plain data; writing the checkpoint fails for other items, with their path in the message.
    """
    return [
        {
            "worker": item.worker,
            "batch": isinstance(item.value, SampleBatch),
            "item": dict(item.value) if isinstance(item.value, SampleBatch) else item.value,
            "batches": list(_batches_inside(item.value)),
        }
        for item in items
    ]


def loaded_items(data: Iterable[Mapping[str, Any]]) -> list[Delivered]:
    """Restores queued items of a flow from the plain data of `saved_items`."""
    return [
        Delivered(
            SampleBatch(saved["item"]) if saved["batch"] else _with_batches(saved["item"], saved["batches"]),
            saved["worker"],
        )
        for saved in data
    ]


_Path = tuple[int | str, ...]


def _batches_inside(value: Any, path: _Path = ()) -> Iterator[_Path]:
    """Yields the paths of all batches nested in tuples, lists and dicts, which checkpoints store as plain dicts."""
    if isinstance(value, SampleBatch):
        if path:
            yield path
    elif isinstance(value, dict | list | tuple):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _batches_inside(inner, (*path, key))


def _with_batches(value: Any, batches: Collection[_Path], path: _Path = ()) -> Any:
    """Converts the nested dicts at the given paths back to batches."""
    if path in batches:
        return SampleBatch(value)
    if not batches or not isinstance(value, dict | list | tuple):
        return value
    if isinstance(value, dict):
        return {key: _with_batches(inner, batches, (*path, key)) for key, inner in value.items()}
    inside = [_with_batches(inner, batches, (*path, index)) for index, inner in enumerate(value)]
    return tuple(inside) if isinstance(value, tuple) else inside
