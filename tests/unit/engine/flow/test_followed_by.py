from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rlrun.engine.flow.concurrently import concurrently
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.nodes import Delivered, Pending, Polled, Source
from rlrun.engine.flow.plan import plan_text
from rlrun.engine.flow.sources.items import from_items


class Due(Source):
    """Delivers two items for each item in another list."""

    def __init__(self, stored: list[Any]) -> None:
        super().__init__("due")
        self.stored = stored
        self.delivered = 0

    def next_item(self) -> Polled:
        if self.delivered >= 2 * len(self.stored):
            return Pending(reasons=("nothing is due",))
        self.delivered += 1
        return Delivered(self.delivered)


def test_after_each_item_the_following_flow_runs_until_nothing_in_it_is_ready() -> None:
    stored: list[str] = []
    done: list[int] = []

    def store(item: str) -> str:
        stored.append(item)
        return item

    flow = from_items("abc").for_each(store).followed_by(Flow(Due(stored)).for_each(done.append))
    seen = [(item, list(done)) for item in flow]
    assert seen == [("a", [1, 2]), ("b", [1, 2, 3, 4]), ("c", [1, 2, 3, 4, 5, 6])]


def test_all_parallel_branches_of_the_following_flow_run_until_nothing_in_them_is_ready() -> None:
    stored: list[str] = []
    done: list[str] = []
    first = Flow(Due(stored)).for_each(lambda number: done.append(f"x{number}"))
    second = Flow(Due(stored)).for_each(lambda number: done.append(f"y{number}"))
    never: Flow[int] = Flow(Due([]))
    flow = from_items("ab").for_each(stored.append).followed_by(concurrently(first, second, never, output=never))
    flow.take(1)
    assert done == ["x1", "y1", "x2", "y2"]
    flow.take(1)
    assert done[4:] == ["x3", "y3", "x4", "y4"]


def test_nothing_is_pulled_from_the_following_flow_before_the_first_item() -> None:
    pulled: list[Any] = []
    empty: list[str] = []
    flow = from_items(empty).followed_by(from_items([1, 2]).for_each(pulled.append))
    assert flow.take(1) == []
    assert pulled == []


def test_items_keep_coming_after_the_following_flow_ends() -> None:
    pulled: list[Any] = []
    assert from_items("abc").followed_by(from_items([1, 2]).for_each(pulled.append)).take(5) == ["a", "b", "c"]
    assert pulled == [1, 2]


def test_the_plan_and_the_state_contain_both_the_flow_and_the_one_that_follows_it(
    letters: Callable[[str], list[Flow[str]]],
) -> None:
    stored: list[str] = ["x"]
    flow = letters("a")[0].followed_by(Flow(Due(stored)))
    assert flow.take(2) == ["a0", "a1"]
    (joined,) = flow.describe()
    assert joined.kind == "followed_by"
    assert [[step.name for step in branch] for branch in joined.branches] == [["a"], ["due"]]
    other = letters("a")[0].followed_by(Flow(Due(stored)))
    other.load_state(flow.state())
    assert next(other) == next(flow) == "a2"


def test_an_error_in_the_following_flow_names_its_operator(wording) -> None:
    def breaks(item: int) -> int:
        raise ValueError("broken")

    flow = from_items("ab").followed_by(from_items([1]).for_each(breaks))
    with pytest.raises(ValueError, match="broken") as raised:
        next(flow)
    assert raised.value.__notes__ == wording()


def test_the_printed_plan_says_where_the_following_flow_ends(wording) -> None:
    flow = from_items("ab").followed_by(from_items([1]).for_each(str)).for_each(repr)
    assert plan_text(flow.describe()).splitlines() == wording("followed_by", "from_items")
