"""The machine behind a Flow: nodes that are polled, and PENDING. Known inside `flow/` only.

A node is asked for its next item with `poll()` and never waits. It answers `Delivered`, `ENDED`, or `Pending`: nothing
is ready, and these are the Ray references and the moment that may change it. Whoever pulls the whole flow (its root)
waits, once, for all of them.
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
"""Items by which one copy of a duplicated stream may run ahead of another, unless something else is said."""


class Delivered(NamedTuple):
    """An item, and the index of the worker that last contributed to it (None if no worker did)."""

    value: Any
    worker: int | None = None


@dataclass(frozen=True)
class Pending:
    """Nothing is ready.

    Attributes:
        references: Ray references one of which must be ready before it is worth polling again.
        deadline: When to poll again at the latest, on the clock of `time.monotonic`.
        barrier: Whether the flow has to wait for it, where another branch might go on otherwise.
        reasons: What is missing, for a flow in which nothing can ever go on.
        went_on: Whether another branch went on meanwhile, so that it is polled again without waiting.
    """

    references: tuple[Any, ...] = ()
    deadline: float = math.inf
    barrier: bool = False
    reasons: tuple[str, ...] = ()
    went_on: bool = False

    def joined(self, other: Pending) -> Pending:
        """Returns what two branches wait for together."""
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
    """The part of an operator that a checkpoint keeps."""

    @property
    def unsaved(self) -> str:
        """What a checkpoint made now lacks of it; "" if nothing."""
        ...

    def state(self) -> dict[str, Any]:
        """Returns it."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned."""
        ...


class Node(ABC):
    """One step of a flow.

    Attributes:
        kind: How the step deals with items, for the printed plan.
        name: Name of its operator.
        settings: The operator's settings, for the printed plan.
        inputs: The nodes it pulls from.
        seconds: Time spent in it, without the nodes upstream.
        items: Items it has worked on.
        learns: Whether its time is that of SGD.
        spans: When it worked, on the clock of `time.perf_counter`; None where nobody wants to know.
        on_workers: Name and settings of the operators that a source has applied on the workers.
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
        """Takes another node for one of its inputs, if it pulls from that one."""
        self.inputs = tuple(node if own is instead_of else own for own in self.inputs)

    def spend(self, began: float) -> None:
        """Counts the time from a moment until now as spent here."""
        ended = time.perf_counter()
        self.seconds += ended - began
        if self.spans is not None:
            self.spans.append((began, ended))

    @abstractmethod
    def poll(self) -> Polled:
        """Returns the next item if it can be had without waiting."""

    @property
    def stateful(self) -> bool:
        """Whether a checkpoint holds something of this node."""
        return False

    def state(self) -> dict[str, Any]:
        """Returns what a checkpoint keeps of it."""
        return {}

    @property
    def unsaved(self) -> str:
        """What a checkpoint made now lacks of it; "" if nothing."""
        return ""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on with what `state` returned; there is nothing to go on with by default."""
        return

    def close(self) -> None:
        """Ends what it has started, nothing by default."""
        return


class Source(Node):
    """Where items come from; a subclass says how in `next_item`."""

    kind = "source"

    @abstractmethod
    def next_item(self) -> Polled:
        """Returns the next item if it can be had without waiting."""

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
        memory: The part of it that a checkpoint keeps, None if there is none.
        apply: What is called on an item.
        pending: What the operator has to wait for before an item is pulled for it; None if it never has to.
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
        """Whether the operator has a memory."""
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
        """Returns the next item for the operator, or what it has to wait for."""
        if self.pending is not None and (pending := self.pending()) is not None:
            return pending
        return self.inputs[0].poll()

    def call(self, item: Any) -> Any:
        """Calls the operator, takes the time, and names the operator in what it raises."""
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
    """Item -> item."""

    kind = "for_each"

    @override
    def poll(self) -> Polled:
        polled = self.pull()
        return Delivered(self.call(polled.value), polled.worker) if isinstance(polled, Delivered) else polled


class Filter(OperatorNode):
    """Item -> the same item or none."""

    kind = "filter"

    @override
    def poll(self) -> Polled:
        """Returns the next item that passes."""
        while isinstance(polled := self.pull(), Delivered):
            if self.call(polled.value):
                return polled
        return polled


class Combine(OperatorNode):
    """Item -> several or none; what has not been pulled yet belongs to its state."""

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
        self.apply = lambda item: list(operator(item))  # a generator's work is the operator's, and takes its time here
        self._ready: deque[Delivered] = deque()

    @override
    def poll(self) -> Polled:
        """Returns the next of the items that the operator made."""
        while not self._ready:
            polled = self.pull()
            if not isinstance(polled, Delivered):
                return polled
            self._ready.extend(Delivered(value, polled.worker) for value in self.call(polled.value))
        return self._ready.popleft()

    @property
    @override
    def stateful(self) -> bool:
        """Always, because of the items that wait."""
        return True

    @override
    def state(self) -> dict[str, Any]:
        """Returns the operator's memory and the items that wait."""
        return {**super().state(), "ready": saved_items(self._ready)}

    @override
    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        self._ready = deque(loaded_items(state["ready"]))


class ZipWithWorker(Node):
    """Item -> (index of the worker it comes from, item)."""

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
    """Item -> the same item, once another stream has nothing ready any more."""

    kind = "followed_by"

    def __init__(self, upstream: Node, other: Node) -> None:
        super().__init__("followed_by", {"output": [0]}, (upstream, other))

    @override
    def poll(self) -> Polled:
        """Returns the next item after everything that it made possible."""
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
    """Keeps for each copy of a stream the items that it has not pulled yet."""

    kind = "duplicate"

    def __init__(self, upstream: Node, copies: int, lead: int) -> None:
        shown = {} if lead == DUPLICATE_LEAD else {"lead": lead}
        super().__init__("duplicate", {"copies": copies, **shown}, (upstream,))
        self.lead = lead
        self._waiting: list[deque[Delivered]] = [deque() for _ in range(copies)]

    @override
    def poll(self) -> Polled:
        """Is not pulled itself; its copies are."""
        raise AssertionError("a duplicate is pulled through its copies")

    def poll_copy(self, copy: int) -> Polled:
        """Returns the next item of one copy; a copy too far ahead of another has to wait for it."""
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
        """Always, because of the items that wait."""
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
    """Returns plain data for items that wait in a flow while it is saved.

    Items are batches, or whatever a checkpoint can hold as it is; the checkpoint refuses the rest and says where it is.
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
    """Returns the items that `saved_items` was given."""
    return [
        Delivered(
            SampleBatch(saved["item"]) if saved["batch"] else _with_batches(saved["item"], saved.get("batches", ())),
            saved["worker"],
        )
        for saved in data
    ]


_Path = tuple[int | str, ...]


def _batches_inside(value: Any, path: _Path = ()) -> Iterator[_Path]:
    """Yields where batches are within tuples, lists and dicts: a checkpoint holds each as a plain dict."""
    if isinstance(value, SampleBatch):
        if path:
            yield path
    elif isinstance(value, dict | list | tuple):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _batches_inside(inner, (*path, key))


def _with_batches(value: Any, batches: Collection[_Path], path: _Path = ()) -> Any:
    """Returns an item in which the dicts at the given paths are batches again; earlier checkpoints give no paths."""
    if path in batches:
        return SampleBatch(value)
    if not batches or not isinstance(value, dict | list | tuple):
        return value
    if isinstance(value, dict):
        return {key: _with_batches(inner, batches, (*path, key)) for key, inner in value.items()}
    inside = [_with_batches(inner, batches, (*path, index)) for index, inner in enumerate(value)]
    return tuple(inside) if isinstance(value, tuple) else inside
