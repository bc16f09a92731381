"""Flow: a stream of items through named operators, which can be printed, timed and saved in checkpoints.

Nothing is computed until an item is pulled. Operators without state are functions, or `Operator` objects if they have
settings. Operators with state are `StatefulOperator` objects; checkpoints save their state under their path in the
plan.

Examples:
    >>> from rlrun.engine.flow.sources.items import from_items
    >>> def doubled(x: int) -> int:
    ...     return 2 * x
    >>> flow = from_items([1, 2, 3]).for_each(doubled)
    >>> flow.take(2)
    [2, 4]
    >>> [(info.path, info.kind) for info in flow.describe()]
    [('from_items', 'source'), ('doubled', 'for_each')]
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from typing_extensions import override

from rlrun.engine.flow.nodes import (
    DUPLICATE_LEAD,
    Combine,
    Copy,
    Delivered,
    Duplicate,
    Ended,
    Filter,
    FollowedBy,
    ForEach,
    Node,
    OperatorNode,
    Pending,
    ZipWithWorker,
)
from rlrun.engine.messages.errors import CheckpointError, TrainingFailed

if TYPE_CHECKING:
    from rlrun.engine.policy.weights import Weights
    from rlrun.engine.settings.metric import Metric

T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")


class FlowStalled(TrainingFailed):
    """Error for a flow that can never continue, because all of its parts wait for something that was not requested."""


class Operator(ABC):
    """Base class of operators with settings, which the printed dataflow (plan) shows as `Name(setting=value)`.

    Attributes:
        learns: Whether the operator runs SGD, so that time profiles count its time as SGD.
        declared_metrics: Declarations of the metrics that `metrics` returns. An algorithm must repeat them in its
            `operator_metrics`, so that the metrics are known without a dataflow.
    """

    learns: ClassVar[bool] = False
    declared_metrics: ClassVar[Sequence[Metric]] = ()

    @abstractmethod
    def __call__(self, item: Any) -> Any:
        """Processes one item, and returns the item for the next operator."""

    def settings(self) -> dict[str, Any]:
        """Returns the settings of the operator, for the printed dataflow; none by default."""
        return {}

    def metrics(self) -> dict[str, float]:
        """Returns the operator's metrics for an iteration's result; none by default."""
        return {}

    @property
    def unsaved(self) -> str:
        """Reason why a run resumed from a checkpoint taken now would differ from this run; "" (the default) if none."""
        return ""

    def pending(self) -> Pending | None:
        """Returns the condition to wait for before the operator takes an item; None (the default) if it is ready."""
        return None

    def close(self) -> None:
        """Releases the operator's resources, such as processes; does nothing by default."""
        return


class StatefulOperator(Operator):
    """Base class of operators that keep state between items; checkpoints save this state."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Returns the operator's state, made of dicts, lists, strings, numbers, None and NumPy arrays."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the operator's state from the result of `state()`."""


class WorkerOperator(Operator):
    """Base class of operators that run on rollout workers and need the worker's index or the policy's weights."""

    def for_worker(self, worker: int) -> WorkerOperator:
        """Returns the operator for a worker that starts or restarts; by default the same object for all workers.

        Args:
            worker: The worker's index; 0 is the trial's own process.
        """
        return self

    def begin(self) -> None:
        """Prepares the operator on the worker, before the first fragment."""
        return

    def set_weights(self, weights: Weights) -> None:
        """Receives new weights of the policy that acts on this worker, to be used from the next fragment on."""
        return

    @override
    def close(self) -> None:
        """Releases the operator's resources; called both on each worker and in the trial's process."""
        return


@dataclass(frozen=True)
class OperatorInfo:
    """Description of a source, an operator or a join of several flows, in the printed dataflow (plan).

    Attributes:
        path: Unique path in the plan: the operator's name, prefixed by the indices of the branches that contain it.
        name: The operator's name.
        kind: How the operator processes items: source, for_each, combine, filter, zip_with_worker, duplicate, copy,
            followed_by or concurrently.
        settings: Settings of the operator for the printed plan.
        stateful: Whether checkpoints hold state of the operator.
        on_workers: For a source of rollouts, name and settings of each operator that the workers apply.
        branches: Plans of the joined branches, for `concurrently` and `followed_by`.
    """

    path: str
    name: str
    kind: str
    settings: dict[str, Any]
    stateful: bool
    on_workers: tuple[tuple[str, dict[str, Any]], ...] = ()
    branches: tuple[tuple[OperatorInfo, ...], ...] = ()


@dataclass(frozen=True)
class OperatorTiming:
    """Total time spent in one operator, and the number of items that it processed.

    Attributes:
        path: Path of the operator in the printed dataflow (plan).
        name: Name of the operator.
        kind: How the operator processes items, such as `for_each` or `combine`.
        seconds: Seconds spent in the operator itself, not in the operators before it.
        items: Number of items processed.
        learns: Whether the operator runs SGD, so that time profiles count its time as SGD.
        spans: (Start, end) of each call, if these are recorded, on the clock of `time.perf_counter`.
    """

    path: str
    name: str
    kind: str
    seconds: float
    items: int
    learns: bool
    spans: tuple[tuple[float, float], ...] = ()


class Flow(Iterator[T_co]):
    """Stream of items through operators; nothing is computed until an item is pulled by `next`, a loop, or `take`.

    Args:
        node: The last operator of the stream; streams begin with sources, such as `PolicyWorkers.rollouts`.

    Attributes:
        waited_s: Seconds spent waiting because no part of the flow had a ready item.
        waits: (Start, end) of each wait, on the clock of `time.perf_counter`; None without `keep_spans`.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.waited_s = 0.0
        self.waits: list[tuple[float, float]] | None = None

    def for_each(self, operator: Callable[[T_co], R]) -> Flow[R]:
        """Applies an operator to each item; returns the flow of the results."""
        return _flow_through(ForEach(self.node, operator, _memory(operator), *operator_label(operator)))

    def combine(self, operator: Callable[[T_co], Iterable[R]]) -> Flow[R]:
        """Applies an operator that returns any number of results per item; returns a flow of all results (flat map)."""
        return _flow_through(Combine(self.node, operator, _memory(operator), *operator_label(operator)))

    def filter(self, predicate: Callable[[T_co], bool]) -> Flow[T_co]:
        """Returns the flow of the items for which a predicate holds."""
        return _flow_through(Filter(self.node, predicate, _memory(predicate), *operator_label(predicate)))

    def duplicate(self, copies: int, *, lead: int = DUPLICATE_LEAD) -> tuple[Flow[T_co], ...]:
        """Splits the flow into several flows that each deliver all items (as shared objects, not copies).

        Args:
            copies: Number of flows.
            lead: Number of items by which one of the flows can get ahead of the slowest before it has to wait.
        """
        duplicate = Duplicate(self.node, copies, lead)
        return tuple(Flow(Copy(duplicate, index)) for index in range(copies))

    def zip_with_worker(self) -> Flow[tuple[int | None, T_co]]:
        """Returns the flow of pairs (worker index, item), with the index None for items that no worker sent."""
        return Flow(ZipWithWorker(self.node))

    def followed_by(self, other: Flow[Any]) -> Flow[T_co]:
        """Returns a flow of this flow's items; before each one, another flow processes all items that it has ready.

        The other flow's items are dropped.

        Examples:
            >>> from rlrun.engine.flow.sources.items import from_items
            >>> from_items("ab").followed_by(from_items([1, 2]).for_each(print)).take(2)
            1
            2
            ['a', 'b']
        """
        return Flow(FollowedBy(self.node, other.node))

    def with_step_after(self, kind: type[Operator], operator: Callable[[Any], Any]) -> Flow[T_co] | None:
        """Returns this flow with another operator inserted directly after the only operator of a given class.

        The flow may be changed in place. A `Training` uses this method to extend an algorithm's dataflow.

        Args:
            kind: Class of the operator after which to insert.
            operator: The operator to insert.

        Returns:
            The extended flow; None if no operator, or more than one, has that class.
        """
        found = [node for node in self._places() if isinstance(_operator(node), kind)]
        if len(found) != 1:
            return None
        inserted = Flow[Any](found[0]).for_each(operator).node
        for node in self._places():
            node.pull_from(inserted, instead_of=found[0])
        return Flow(inserted) if self.node is found[0] else self

    @override
    def __next__(self) -> T_co:
        """Pulls the next item; blocks until one is ready.

        Raises:
            StopIteration: At the end of a finite stream.
            FlowStalled: Every branch waits for another one.
        """
        items_before = -1
        while True:
            polled = self.node.poll()
            if type(polled) is Delivered:
                return polled.value  # type: ignore[no-any-return]
            if isinstance(polled, Ended):
                raise StopIteration
            if polled.progressed:
                continue
            items = sum(node.items for node in self._places()) if not _is_awaitable(polled) else -1
            if items == items_before >= 0:
                raise FlowStalled(
                    f"the flow cannot continue: {'; '.join(polled.reasons) or 'all branches are waiting'}"
                )
            items_before = items
            self._wait(polled)

    def take(self, number: int) -> list[T_co]:
        """Pulls the given number of items, or fewer if the stream ends, and returns them."""
        return [item for _, item in zip(range(number), self, strict=False)]

    def state(self, *, without: Sequence[Flow[Any]] = ()) -> dict[str, Any]:
        """Returns the state of all operators, and the queued items, for a checkpoint.

        Args:
            without: Upstream flows whose state is saved elsewhere.
        """
        places = self._places(without)
        return {
            "plan": list(places.values()),
            "operators": {path: node.state() for node, path in places.items() if node.stateful},
        }

    def load_state(self, state: Mapping[str, Any], *, without: Sequence[Flow[Any]] = ()) -> None:
        """Restores operators and queued items from the result of `state()` of a flow with the same plan.

        Raises:
            CheckpointError: The state is from a flow with a different plan.
        """
        places = self._places(without)
        saved, own = list(state["plan"]), list(places.values())
        if saved != own:
            raise CheckpointError(
                f"the checkpoint was saved with a different dataflow: {' -> '.join(saved)}, not {' -> '.join(own)}"
            )
        for node, path in places.items():
            if node.stateful:
                node.load_state(state["operators"][path])

    def unsaved(self) -> list[str]:
        """Returns the reasons, if any, why a run resumed from a checkpoint taken now would differ from this run."""
        return list(dict.fromkeys(node.unsaved for node in self._places() if node.unsaved))

    def metrics(self) -> dict[str, float]:
        """Returns the metrics of all operators, for the result of an iteration."""
        return {
            name: value for node in self._places() if (own := _operator(node)) for name, value in own.metrics().items()
        }

    def declared_metrics(self) -> list[Metric]:
        """Returns the declarations of all metrics that the operators report, without duplicates."""
        declared = (metric for node in self._places() if (own := _operator(node)) for metric in own.declared_metrics)
        return list(dict.fromkeys(declared))

    def close(self) -> None:
        """Closes all operators, and ends processes such as a replay buffer's; rollout workers stay open."""
        for node in self._places():
            (_operator(node) or node).close()

    def timings(self) -> list[OperatorTiming]:
        """Returns the time spent in each operator, in the order of the plan."""
        return [
            OperatorTiming(
                path,
                node.name,
                node.kind,
                node.seconds,
                node.items,
                node.learns,
                tuple(node.spans or ()),
            )
            for node, path in self._places().items()
        ]

    def keep_spans(self) -> None:
        """Starts recording the start and end of each operator call and of each wait, for a trace of the timing.

        Each recorded call or wait takes about 120 bytes, so do not use this in long runs.
        """
        for node in self._places():
            node.spans = []
        self.waits = []

    def describe(self) -> tuple[OperatorInfo, ...]:
        """Returns the flow's plan: a description of each operator, from the source to the last one."""
        return _described(self.node, self._places())

    def _places(self, without: Sequence[Flow[Any]] = ()) -> dict[Node, str]:
        """Returns the paths of all nodes, upstream first, except the nodes of some upstream flows."""
        places: dict[Node, str] = {}
        _locate(self.node, "", places)
        apart = {node for flow in without for node in flow._places()}
        return {node: path for node, path in places.items() if node not in apart}

    def _wait(self, pending: Pending) -> None:
        """Waits until one of the references is ready or the deadline has passed."""
        began = time.perf_counter()
        timeout = None if math.isinf(pending.deadline) else max(pending.deadline - time.monotonic(), 0.0)
        if pending.references:
            import ray  # only flows over actors need it

            ray.wait(list(dict.fromkeys(pending.references)), num_returns=1, timeout=timeout)
        elif timeout is not None:
            time.sleep(timeout)
        ended = time.perf_counter()
        self.waited_s += ended - began
        if self.waits is not None:
            self.waits.append((began, ended))


def operator_label(operator: Callable[..., Any]) -> tuple[str, dict[str, Any]]:
    """Returns the name (of the function or class) and the settings under which plans show an operator."""
    if isinstance(operator, Operator):
        return type(operator).__name__, operator.settings()
    name: str = getattr(operator, "__name__", type(operator).__name__)
    return name, {}


def learns(operator: Callable[..., Any]) -> bool:
    """Whether an operator runs SGD, so that time profiles count its time as SGD."""
    return isinstance(operator, Operator) and operator.learns


def _flow_through(node: OperatorNode) -> Flow[Any]:
    operator = node.operator
    node.learns = learns(operator)
    if isinstance(operator, Operator) and type(operator).pending is not Operator.pending:
        node.pending = operator.pending
    return Flow(node)


def _memory(operator: Callable[..., Any]) -> StatefulOperator | None:
    return operator if isinstance(operator, StatefulOperator) else None


def _operator(node: Node) -> Operator | None:
    """Returns a node's operator if it is an `Operator`, not a plain function."""
    return node.operator if isinstance(node, OperatorNode) and isinstance(node.operator, Operator) else None


def _is_awaitable(pending: Pending) -> bool:
    return bool(pending.references) or not math.isinf(pending.deadline)


def _chain(node: Node) -> list[Node]:
    """Returns the nodes from the nearest source or join down to this one."""
    chain = [node]
    while len(chain[-1].inputs) == 1:
        chain.append(chain[-1].inputs[0])
    return chain[::-1]


def _locate(end: Node, prefix: str, places: dict[Node, str]) -> None:
    taken = set(places.values())
    for node in _chain(end):
        if node in places:  # upstream of a duplicate, and already visited
            continue
        for branch, node_input in enumerate(node.inputs if len(node.inputs) > 1 else ()):
            _locate(node_input, f"{prefix}{branch}/", places)
        path, number = f"{prefix}{node.name}", 2
        while path in taken:
            path, number = f"{prefix}{node.name}-{number}", number + 1
        places[node] = path
        taken.add(path)


def _described(end: Node, places: Mapping[Node, str]) -> tuple[OperatorInfo, ...]:
    return tuple(
        OperatorInfo(
            path=places[node],
            name=node.name,
            kind=node.kind,
            settings=node.settings,
            stateful=node.stateful,
            on_workers=node.on_workers,
            branches=tuple(_described(branch, places) for branch in node.inputs) if len(node.inputs) > 1 else (),
        )
        for node in _chain(end)
    )
