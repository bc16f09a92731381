"""A flow over the items of an iterable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from rlrun.flow.flow import Flow
from rlrun.flow.nodes import ENDED, Delivered, Polled, Source

T = TypeVar("T")


def from_items(items: Iterable[T]) -> Flow[T]:
    """Delivers the items of an iterable, which is pulled as lazily as the flow; its position is not saved."""
    return Flow(ItemSource(items))


class ItemSource(Source):
    """Delivers the items of an iterable."""

    def __init__(self, items: Iterable[object]) -> None:
        super().__init__("from_items")
        self._items = iter(items)

    def next_item(self) -> Polled:
        """Returns the next item."""
        for item in self._items:
            return Delivered(item)
        return ENDED
