"""Nodes of a flow, which are polled for items; used inside `flow/` only.

`poll()` returns a node's next item, and never waits. The result is `Delivered`, `ENDED`, or `Pending` if no item is
ready, with the Ray references and the deadline to wait for. The flow waits for those of all nodes together.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from typing_extensions import override

from rlrun.data.sample_batch import SampleBatch

DUPLICATE_LEAD = 8
"""Default number of items by which one copy of a duplicated stream may be ahead of another."""


class Delivered(NamedTuple):
    """An item, and the index of the worker that last contributed to it (None if no worker did)."""

    value: Any
    worker: int | None = None


@dataclass(frozen=True)
class Pending:
    """No item is ready.

    Attributes:
        references: Ray references to wait for, of which one is enough.
        deadline: Latest time of the next poll, on the clock of `time.monotonic`.
        barrier: Whether the whole flow has to wait for it, although other branches could continue.
        reasons: Missing conditions, for the message if the flow can never continue.
        went_on: Whether another branch processed items meanwhile, so that the next poll needs no wait.
    """

    references: tuple[Any, ...] = ()
    deadline: float = math.inf
    barrier: bool = False
    reasons: tuple[str, ...] = ()
    went_on: bool = False

    def joined(self, other: Pending) -> Pending:
        """Returns the union of the conditions of two branches."""
        return Pending(
            self.references + other.references,
            min(self.deadline, other.deadline),
            self.barrier or other.barrier,
            self.reasons + other.reasons,
            self.went_on or other.went_on,
        )


class Ended:
    """The stream has no more items."""


ENDED = Ended()
Polled = Delivered | Pending | Ended


class Memory(Protocol):
    """Interface of an operator's state in checkpoints."""

    @property
    def unsaved(self) -> str:
        """Reason why a run does not resume exactly from a checkpoint made now; "" if it does."""
        ...

    def state(self) -> dict[str, Any]:
        """Returns the state."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores `state()`."""
        ...


class Node(ABC):
    """A node of a flow: a source, an operator, or a join of several flows.

    Attributes:
        kind: Kind of the node, for the printed plan.
        name: Name of its operator.
        settings: The operator's settings, for the printed plan.
        inputs: The nodes from which it pulls items.
        seconds: Time spent in it, without the nodes upstream.
        items: Number of items processed.
        learns: Whether its time counts as SGD.
        spans: (Start, end) of its calls, on the clock of `time.perf_counter`; None if they are not recorded.
        on_workers: Name and settings of a source's operators on the workers.
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
        """Replaces an input by another node, if it is one of its inputs."""
        self.inputs = tuple(node if own is instead_of else own for own in self.inputs)

    def spend(self, began: float) -> None:
        """Adds the time since `began` to the seconds of this node."""
        ended = time.perf_counter()
        self.seconds += ended - began
        if self.spans is not None:
            self.spans.append((began, ended))

    @abstractmethod
    def poll(self) -> Polled:
        """Returns the next item, if there is one without waiting."""

    @property
    def stateful(self) -> bool:
        """Whether checkpoints hold a state of this node."""
        return False

    def state(self) -> dict[str, Any]:
        """Returns its state for checkpoints."""
        return {}

    @property
    def unsaved(self) -> str:
        """Reason why a run does not resume exactly from a checkpoint made now; "" if it does."""
        return ""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores `state()`; does nothing by default."""
        return

    def close(self) -> None:
        """Releases its resources; does nothing by default."""
        return


class Source(Node):
    """A node without inputs, whose subclasses define `next_item`."""

    kind = "source"

    @abstractmethod
    def next_item(self) -> Polled:
        """Returns the next item, if there is one without waiting."""

    @override
    def poll(self) -> Polled:
        """Returns the next item, and takes the time."""
        began = time.perf_counter()
        try:
            polled = self.next_item()
        finally:
            self.spend(began)
        self.items += isinstance(polled, Delivered)
        return polled


class OperatorNode(Node):
    """A node that calls an operator on each item.

    Attributes:
        operator: The operator.
        memory: Its state in checkpoints, None if it has none.
        apply: The function that is called with each item.
        pending: Returns the condition to wait for before an item is pulled; None if there is never one.
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
        """Whether the operator has state."""
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
        """Returns the next item for the operator, or the condition to wait for."""
        if self.pending is not None and (pending := self.pending()) is not None:
            return pending
        return self.inputs[0].poll()

    def call(self, item: Any) -> Any:
        """Calls the operator, measures its time, and adds its name to exceptions."""
        began = time.perf_counter()
        try:
            return self.apply(item)
        except StopIteration as error:  # it would look like the end of the stream
            raise RuntimeError(f"the operator {self.name} raised StopIteration") from error
        except Exception as error:
            error.add_note(f"raised by the operator {self.name}")
            raise
        finally:
            self.spend(began)
            self.items += 1


class ForEach(OperatorNode):
    """Maps each item to an item."""

    kind = "for_each"

    @override
    def poll(self) -> Polled:
        polled = self.pull()
        return Delivered(self.call(polled.value), polled.worker) if isinstance(polled, Delivered) else polled


class Filter(OperatorNode):
    """Keeps items for which a predicate holds."""

    kind = "filter"

    @override
    def poll(self) -> Polled:
        """Returns the next item for which the predicate holds."""
        while isinstance(polled := self.pull(), Delivered):
            if self.call(polled.value):
                return polled
        return polled


class Combine(OperatorNode):
    """Maps each item to several or none; those that are not pulled yet are part of its state."""

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
        """Returns the next item of the operator's outputs."""
        while not self._ready:
            polled = self.pull()
            if not isinstance(polled, Delivered):
                return polled
            self._ready.extend(Delivered(value, polled.worker) for value in self.call(polled.value))
        return self._ready.popleft()

    @property
    @override
    def stateful(self) -> bool:
        """Always: the items that wait are part of its state."""
        return True

    @override
    def state(self) -> dict[str, Any]:
        """Returns the operator's state and the items that wait."""
        return {**super().state(), "ready": saved_items(self._ready)}

    @override
    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        self._ready = deque(loaded_items(state["ready"]))


class ZipWithWorker(Node):
    """Pairs each item with the index of the worker that delivered it."""

    kind = "zip_with_worker"

    def __init__(self, upstream: Node) -> None:
        super().__init__("zip_with_worker", inputs=(upstream,))

    @override
    def poll(self) -> Polled:
        """Returns the next item with its worker's index."""
        polled = self.inputs[0].poll()
        if not isinstance(polled, Delivered):
            return polled
        self.items += 1
        return Delivered((polled.worker, polled.value), polled.worker)


class FollowedBy(Node):
    """Delivers each item after another stream has processed everything that is ready."""

    kind = "followed_by"

    def __init__(self, upstream: Node, other: Node) -> None:
        super().__init__("followed_by", {"output": [0]}, (upstream, other))

    @override
    def poll(self) -> Polled:
        """Returns the next item, after the other stream has processed everything that is ready."""
        polled = self.inputs[0].poll()
        if isinstance(polled, Delivered):
            self.items += 1
            while self._goes_on(self.inputs[1].poll()):
                pass
        return polled

    @staticmethod
    def _goes_on(polled: Polled) -> bool:
        return polled.went_on if isinstance(polled, Pending) else isinstance(polled, Delivered)


class Duplicate(Node):
    """Queues of a duplicated stream: for each copy the items that it has not pulled yet."""

    kind = "duplicate"

    def __init__(self, upstream: Node, copies: int, lead: int) -> None:
        shown = {} if lead == DUPLICATE_LEAD else {"lead": lead}
        super().__init__("duplicate", {"copies": copies, **shown}, (upstream,))
        self.lead = lead
        self._waiting: list[deque[Delivered]] = [deque() for _ in range(copies)]

    @override
    def poll(self) -> Polled:
        """Raises: only its copies are polled."""
        raise AssertionError("a duplicate is pulled through its copies")

    def poll_copy(self, copy: int) -> Polled:
        """Returns the next item of one copy; a copy `lead` items ahead of another has to wait."""
        own = self._waiting[copy]
        if own:
            return own.popleft()
        if max(map(len, self._waiting)) >= self.lead:
            return Pending(reasons=(f"a copy made by duplicate is {self.lead} items ahead of one that is not pulled",))
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
        """Always: the items that wait are part of its state."""
        return True

    @override
    def state(self) -> dict[str, Any]:
        """Returns the items that wait: each copy's are the last ones of the longest queue."""
        longest = max(self._waiting, key=lambda waiting: len(waiting))
        return {"items": saved_items(longest), "lengths": [len(waiting) for waiting in self._waiting]}

    @override
    def load_state(self, state: Mapping[str, Any]) -> None:
        items = loaded_items(state["items"])
        self._waiting = [deque(items[len(items) - length :]) for length in state["lengths"]]


class Copy(Node):
    """One copy of a duplicated stream."""

    kind = "copy"

    def __init__(self, duplicate: Duplicate, index: int) -> None:
        super().__init__("copy", {"index": index}, (duplicate,))
        self.duplicate = duplicate
        self.index = index

    @override
    def poll(self) -> Polled:
        return self.duplicate.poll_copy(self.index)


def saved_items(items: Iterable[Delivered]) -> list[dict[str, Any]]:
    """Converts items that wait in a flow to plain data for checkpoints.

    Items are batches, or data that a checkpoint can hold as it is; the checkpoint refuses others with their path.
    """
    return [
        {
            "worker": item.worker,
            "batch": isinstance(item.value, SampleBatch),
            "item": dict(item.value) if isinstance(item.value, SampleBatch) else item.value,
            **({"batches": inside} if (inside := list(_batches_inside(item.value))) else {}),
        }
        for item in items
    ]


def loaded_items(data: Iterable[Mapping[str, Any]]) -> list[Delivered]:
    """Restores items from the data of `saved_items`."""
    return [
        Delivered(
            SampleBatch(saved["item"]) if saved["batch"] else _with_batches(saved["item"], saved.get("batches", ())),
            saved["worker"],
        )
        for saved in data
    ]


_Path = tuple[int | str, ...]


def _batches_inside(value: Any, path: _Path = ()) -> Iterator[_Path]:
    """Yields the paths of batches within tuples, lists and dicts: a checkpoint holds each as a plain dict."""
    if isinstance(value, SampleBatch):
        if path:
            yield path
    elif isinstance(value, dict | list | tuple):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _batches_inside(inner, (*path, key))


def _with_batches(value: Any, batches: Collection[_Path], path: _Path = ()) -> Any:
    """Returns an item with the dicts at the given paths as batches; checkpoints of older versions have no paths."""
    if path in batches:
        return SampleBatch(value)
    if not batches or not isinstance(value, dict | list | tuple):
        return value
    if isinstance(value, dict):
        return {key: _with_batches(inner, batches, (*path, key)) for key, inner in value.items()}
    inside = [_with_batches(inner, batches, (*path, index)) for index, inner in enumerate(value)]
    return tuple(inside) if isinstance(value, tuple) else inside
