"""Sources of dataflows that deliver the items of an iterable, or of an iterator whose position is saved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from typing_extensions import override

from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.nodes import ENDED, Delivered, Polled, Source

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class StatefulSource(Iterator[T_co], ABC):
    """Base class of iterators that serve as the source of a flow, and whose position is saved in checkpoints.

    Printing a plan creates the iterator too, so it should not open files before the first item is pulled.

    Examples:
        >>> class Multiples(StatefulSource[int]):
        ...     def __init__(self, factor: int) -> None:
        ...         self.factor, self.number = factor, 0
        ...
        ...     def __next__(self) -> int:
        ...         self.number += 1
        ...         return self.factor * self.number
        ...
        ...     def state(self) -> dict[str, Any]:
        ...         return {"number": self.number}
        ...
        ...     def load_state(self, state: dict[str, Any]) -> None:
        ...         self.number = state["number"]
        >>> flow, restored = from_items(Multiples(3)), from_items(Multiples(3))
        >>> flow.take(2)
        [3, 6]
        >>> restored.load_state(flow.state())
        >>> restored.take(2)
        [9, 12]
    """

    @abstractmethod
    @override
    def __next__(self) -> T_co:
        """Returns the next item; raises StopIteration at the end."""

    def settings(self) -> dict[str, Any]:
        """Returns the source's settings for the printed plan; none by default."""
        return {}

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Returns the iterator's position, made of dicts, lists, strings, numbers, None and NumPy arrays."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the iterator's position from the result of `state()`."""


def from_items(items: Iterable[T]) -> Flow[T]:
    """Creates a flow over the items of an iterable, which is consumed lazily.

    Checkpoints save the position only if the iterable is a `StatefulSource`; printed plans show such a source by its
    class name.
    """
    return Flow(StatefulItems(items) if isinstance(items, StatefulSource) else ItemSource(items))


class ItemSource(Source):
    """Source of a dataflow: delivers the items of an iterable, whose position is not saved in checkpoints."""

    def __init__(
        self, items: Iterable[object], name: str = "from_items", settings: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(name, settings)
        self._items = iter(items)

    @override
    def next_item(self) -> Polled:
        for item in self._items:
            return Delivered(item)
        return ENDED


class StatefulItems(ItemSource):
    """Source of a dataflow: delivers the items of a `StatefulSource`, whose position is saved in checkpoints."""

    def __init__(self, source: StatefulSource[object]) -> None:
        super().__init__(source, type(source).__name__, source.settings())
        self.source = source

    @property
    @override
    def stateful(self) -> bool:
        """Always true: checkpoints save the position of the iterator."""
        return True

    @override
    def state(self) -> dict[str, Any]:
        return {"source": self.source.state()}

    @override
    def load_state(self, state: Mapping[str, Any]) -> None:
        self.source.load_state(state["source"])
