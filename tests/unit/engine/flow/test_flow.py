from __future__ import annotations

import itertools
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from rlrun.engine.checkpoint.state_codec import decode, encode
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow, FlowStalled, Operator, StatefulOperator
from rlrun.engine.flow.nodes import Delivered, Pending, Polled, Source
from rlrun.engine.flow.sources.items import StatefulSource, from_items
from rlrun.engine.messages.errors import CheckpointError


class Numbers(Source):
    """0, 1, 2, ... from two workers in turn; its position is saved."""

    def __init__(self) -> None:
        super().__init__("numbers")
        self.next = 0

    def next_item(self) -> Polled:
        self.next += 1
        return Delivered(self.next - 1, worker=1 + (self.next - 1) % 2)

    @property
    def stateful(self) -> bool:
        return True

    def state(self) -> dict[str, Any]:
        return {"next": self.next}

    def load_state(self, state: Any) -> None:
        self.next = state["next"]


class ReadyLater(Source):
    """Has its next item only some time after the first request for it."""

    def __init__(self, delay_s: float) -> None:
        super().__init__("ready_later")
        self.delay_s = delay_s
        self.polls = 0
        self.ready_at: float | None = None

    def next_item(self) -> Polled:
        self.polls += 1
        if self.ready_at is None:
            self.ready_at = time.monotonic() + self.delay_s
        if time.monotonic() < self.ready_at:
            return Pending(deadline=self.ready_at)
        self.ready_at = None
        return Delivered("late")


class Pairs(StatefulOperator):
    """Joins two items each."""

    def __init__(self, joiner: str) -> None:
        self.joiner = joiner
        self.held: list[Any] = []

    def __call__(self, item: Any) -> list[str]:
        self.held.append(item)
        if len(self.held) < 2:
            return []
        joined = self.joiner.join(map(str, self.held))
        self.held = []
        return [joined]

    def settings(self) -> dict[str, Any]:
        return {"joiner": self.joiner}

    def state(self) -> dict[str, Any]:
        return {"held": list(self.held)}

    def load_state(self, state: dict[str, Any]) -> None:
        self.held = list(state["held"])


class Scale(Operator):
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, item: int) -> int:
        return self.factor * item

    def settings(self) -> dict[str, Any]:
        return {"factor": self.factor}


def thrice(item: Any) -> list[Any]:
    return [item, item, item]


def is_even(item: int) -> bool:
    return item % 2 == 0


def plus_one(item: int) -> int:
    return item + 1


def through_a_file(state: dict[str, Any]) -> Any:
    arrays: list[np.ndarray[Any, Any]] = []
    data = encode(state, arrays)
    return decode(data, arrays)


def test_items_pass_through_the_operators_in_order() -> None:
    assert list(from_items([1, 2, 3, 4]).filter(is_even).for_each(plus_one).combine(thrice)) == [3, 3, 3, 5, 5, 5]


def test_no_item_is_pulled_before_it_is_requested() -> None:
    pulled = []

    def items() -> Iterator[int]:
        for number in range(10):
            pulled.append(number)
            yield number

    flow = from_items(items()).for_each(plus_one)
    assert pulled == []
    assert flow.take(2) == [1, 2]
    assert pulled == [0, 1]
    assert flow.take(0) == []
    assert pulled == [0, 1]


def test_a_stream_continues_where_the_last_loop_over_it_stopped() -> None:
    flow = Flow(Numbers()).for_each(plus_one)
    for item in flow:
        if item == 2:
            break
    assert flow.take(2) == [3, 4]


def test_take_returns_fewer_items_than_requested_at_the_end_of_a_stream() -> None:
    assert from_items([1, 2]).take(5) == [1, 2]


def test_zip_with_worker_gives_the_worker_that_contributed_last() -> None:
    assert Flow(Numbers()).combine(Pairs("+")).zip_with_worker().take(2) == [(2, "0+1"), (2, "2+3")]
    assert from_items("a").zip_with_worker().take(1) == [(None, "a")]


def test_the_root_waits_without_polling_until_an_item_may_be_ready() -> None:
    source = ReadyLater(0.2)
    flow: Flow[str] = Flow(source)
    began = time.monotonic()
    assert flow.take(1) == ["late"]
    assert time.monotonic() - began >= 0.2
    assert source.polls == 2
    assert flow.waited_s >= 0.19


def test_neither_operators_nor_the_user_ever_see_pending() -> None:
    seen = []

    def note(item: Any) -> Any:
        seen.append(item)
        return item

    first, second = Flow(ReadyLater(0.02)).filter(lambda item: note(item) == "late").for_each(note).duplicate(2)
    assert first.combine(lambda item: [note(item)]).take(2) == ["late", "late"]
    assert second.take(2) == ["late", "late"]
    assert set(seen) == {"late"}


def test_each_copy_of_a_stream_delivers_every_item() -> None:
    first, second, third = Flow(Numbers()).duplicate(3)
    assert first.take(3) == [0, 1, 2]
    assert second.take(1) == [0]
    assert third.take(4) == [0, 1, 2, 3]
    assert first.take(2) == [3, 4]
    assert second.take(4) == [1, 2, 3, 4]


def test_a_copy_that_is_never_pulled_raises_an_error_instead_of_waiting_forever(wording) -> None:
    first, _ = Flow(Numbers()).duplicate(2)
    with wording.raised(FlowStalled):
        first.take(9)


@pytest.mark.parametrize("pulled", range(8))
def test_a_flow_restored_in_mid_stream_continues_identically(pulled: int) -> None:
    def made() -> Flow[Any]:
        return Flow(Numbers()).combine(Pairs("+")).combine(thrice).for_each(str.upper)

    flow, restored = made(), made()
    flow.take(pulled)
    restored.load_state(through_a_file(flow.state()))
    assert restored.take(7) == flow.take(7)


@pytest.mark.parametrize(("pulled_first", "pulled_second"), [(0, 0), (3, 1), (1, 4), (2, 2)])
def test_items_that_only_one_copy_of_a_stream_has_delivered_are_saved_for_the_other(
    pulled_first: int, pulled_second: int
) -> None:
    def made() -> tuple[Flow[Any], Flow[Any], Flow[Any]]:
        first, second = Flow(Numbers()).duplicate(2)
        return first, second, first

    first, second, _ = made()
    first.take(pulled_first)
    second.take(pulled_second)
    again_first, again_second, _ = made()
    again_first.load_state(through_a_file(first.state()))
    assert again_second.take(4) == second.take(4)
    assert again_first.take(4) == first.take(4)


def test_buffered_batches_are_restored_as_batches() -> None:
    batch = SampleBatch(obs={"a": np.arange(4.0), "b": (np.zeros(2),)}, valid=np.ones((1, 1), np.bool_))
    flow, restored = (from_items(items).combine(thrice) for items in ([batch], []))
    flow.take(1)
    restored.load_state(through_a_file(flow.state()))
    waiting = restored.take(3)
    assert len(waiting) == 2
    assert type(waiting[0]) is SampleBatch
    np.testing.assert_array_equal(waiting[0]["obs"]["a"], batch["obs"]["a"])
    assert isinstance(waiting[0]["obs"]["b"], tuple)


def test_batches_nested_in_buffered_items_are_restored_as_batches() -> None:
    def with_more(item: tuple[int | None, SampleBatch]) -> list[Any]:
        worker, batch = item
        return ["first", item, [worker, {"seen": [batch, batch["obs"]], "more": (3, {"a": 1})}]]

    batch = SampleBatch(obs={"a": np.arange(4.0)}, valid=np.ones((1, 1), np.bool_))
    flow, restored = (from_items(items).zip_with_worker().combine(with_more) for items in ([batch], []))
    assert flow.take(1) == ["first"]
    restored.load_state(through_a_file(flow.state()))
    (worker, found), (_, inside) = restored.take(3)
    assert (worker, type(found)) == (None, SampleBatch)
    np.testing.assert_array_equal(found["obs"]["a"], batch["obs"]["a"])
    assert [type(seen) for seen in inside["seen"]] == [SampleBatch, dict]
    assert inside["more"] == (3, {"a": 1})


class Countdown(StatefulSource[int]):
    """From a number down to 1."""

    def __init__(self, first: int) -> None:
        self.first = self.left = first

    def __next__(self) -> int:
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left + 1

    def settings(self) -> dict[str, Any]:
        return {"first": self.first}

    def state(self) -> dict[str, Any]:
        return {"left": self.left}

    def load_state(self, state: dict[str, Any]) -> None:
        self.left = state["left"]


def test_a_restored_source_continues_where_it_was_saved_and_is_described_by_its_name() -> None:
    flow, restored = (from_items(Countdown(5)).for_each(plus_one) for _ in range(2))
    assert flow.take(2) == [6, 5]
    restored.load_state(through_a_file(flow.state()))
    assert list(restored) == list(flow) == [4, 3, 2]
    (source, _) = flow.describe()
    assert (source.name, source.settings, source.stateful) == ("Countdown", {"first": 5}, True)


def test_the_position_in_a_plain_iterable_is_not_saved() -> None:
    flow = from_items([1, 2, 3])
    flow.take(2)
    assert flow.state()["operators"] == {}


def test_the_state_of_another_plan_is_refused_with_an_error_that_shows_both_plans(wording) -> None:
    state = Flow(Numbers()).combine(Pairs("+")).state()
    other = Flow(Numbers()).for_each(plus_one)
    with wording.raised(CheckpointError, "plus_one"):
        other.load_state(state)


def test_a_flows_state_does_not_depend_on_the_settings_of_its_operators() -> None:
    flow, other = Flow(Numbers()).combine(Pairs("+")), Flow(Numbers()).combine(Pairs("-"))
    flow.take(1)
    other.load_state(flow.state())
    assert other.take(1) == ["2-3"]


def test_operators_with_the_same_name_have_distinct_paths() -> None:
    flow = Flow(Numbers()).combine(Pairs("+")).combine(Pairs("|"))
    assert [info.path for info in flow.describe()] == ["numbers", "Pairs", "Pairs-2"]
    assert flow.take(1) == ["0+1|2+3"]


def test_timings_count_items_and_exclude_upstream_operators() -> None:
    def slow(item: int) -> int:
        time.sleep(0.02)
        return item

    flow = Flow(Numbers()).for_each(slow).filter(is_even).combine(Pairs("+"))
    began = time.perf_counter()
    flow.take(2)
    wall = time.perf_counter() - began
    timings = {timing.name: timing for timing in flow.timings()}
    assert [(timing.path, timing.items) for timing in flow.timings()] == [
        ("numbers", 7),
        ("slow", 7),
        ("is_even", 7),
        ("Pairs", 4),
    ]
    assert timings["slow"].seconds >= 7 * 0.02
    assert timings["Pairs"].seconds < timings["slow"].seconds
    assert sum(timing.seconds for timing in flow.timings()) + flow.waited_s <= wall


def test_an_error_in_an_operator_keeps_its_traceback_and_names_the_operator(wording) -> None:
    def broken(item: int) -> int:
        return [][item]

    flow = from_items([1]).for_each(plus_one).for_each(broken)
    with pytest.raises(IndexError) as caught:
        flow.take(1)
    assert caught.value.__notes__ == wording()
    assert "return [][item]" in "".join(traceback.format_exception(caught.value))


def test_a_stop_iteration_in_an_operator_is_an_error_and_not_the_end_of_the_stream(wording) -> None:
    def exhausted(_: int) -> int:
        return next(iter([]))

    with wording.raised(RuntimeError, "StopIteration"):
        from_items([1]).for_each(exhausted).take(1)


def test_the_flow_modules_import_neither_torch_nor_ray() -> None:
    program = """
import sys
import rlrun.engine.flow.concurrently, rlrun.engine.flow.plan, rlrun.engine.flow.sources.items
flow = rlrun.engine.flow.sources.items.from_items([1]).for_each(str)
rlrun.engine.flow.plan.plan_text(flow.describe())
assert flow.take(1) == ["1"]
print([name for name in ("ray", "torch", "gymnasium") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_settings_of_an_operator_are_part_of_its_description() -> None:
    (_, scale) = from_items([1]).for_each(Scale(3)).describe()
    assert (scale.name, scale.settings, scale.stateful) == ("Scale", {"factor": 3}, False)
    assert Flow(Numbers()).combine(Pairs("+")).describe()[1].stateful


def test_spans_are_kept_on_request_and_add_up_to_the_seconds_of_the_timings() -> None:
    def slow(item: int) -> int:
        time.sleep(0.002)
        return item

    flow = Flow(Numbers()).for_each(slow).combine(Pairs("+"))
    flow.take(1)
    assert [timing.spans for timing in flow.timings()] == [(), (), ()]
    assert flow.waits is None
    before = {timing.path: timing.seconds for timing in flow.timings()}
    flow.keep_spans()
    began = time.perf_counter()
    flow.take(3)
    ended = time.perf_counter()
    every = sorted(span for timing in flow.timings() for span in timing.spans)
    assert began <= every[0][0]
    assert every[-1][1] <= ended
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(every))
    for timing in flow.timings():
        spent = sum(ended - began for began, ended in timing.spans)
        assert spent == pytest.approx(timing.seconds - before[timing.path], abs=1e-9)
    assert flow.waits == []


def test_timings_tell_which_operators_learn() -> None:
    class Learn(Operator):
        learns = True

        def __call__(self, item: int) -> list[int]:
            return [item]

    flow = from_items([1]).for_each(plus_one).combine(Learn()).for_each(Learn())
    assert [(timing.kind, timing.learns) for timing in flow.timings()] == [
        ("source", False),
        ("for_each", False),
        ("combine", True),
        ("for_each", True),
    ]


class WaitsForRoom(Operator):
    """Stores at most three items."""

    def __init__(self) -> None:
        self.stored: list[int] = []
        self.is_closed = False

    def __call__(self, item: int) -> int:
        self.stored.append(item)
        return item

    def pending(self) -> Pending | None:
        return Pending(reasons=("there is no room",)) if len(self.stored) == 3 else None

    def metrics(self) -> dict[str, float]:
        return {"stored": float(len(self.stored))}

    def close(self) -> None:
        self.is_closed = True


def test_nothing_is_pulled_while_a_for_each_operator_has_no_room(wording) -> None:
    store, source = WaitsForRoom(), Numbers()
    flow = Flow(source).for_each(store)
    assert flow.take(3) == [0, 1, 2]
    with wording.raised(FlowStalled):
        next(flow)
    assert source.next == 3
    store.stored.clear()
    assert next(flow) == 3


class Parts(WaitsForRoom):
    """Stores at most three items, and passes each on as a list of one."""

    def __call__(self, item: int) -> list[int]:  # type: ignore[override]
        return [super().__call__(item)]


class Stored(WaitsForRoom):
    """Stores at most three items, and lets all items pass."""

    def __call__(self, item: int) -> bool:  # type: ignore[override]
        super().__call__(item)
        return True


@pytest.mark.parametrize("kind", ["combine", "filter"])
def test_nothing_is_pulled_while_a_combine_or_filter_operator_has_no_room(kind: str, wording) -> None:
    source = Numbers()
    store: Parts | Stored = Parts() if kind == "combine" else Stored()
    flow = Flow(source).combine(store) if isinstance(store, Parts) else Flow(source).filter(store)
    assert flow.take(3) == [0, 1, 2]
    with wording.raised(FlowStalled):
        next(flow)
    assert source.next == 3
    store.stored.clear()
    assert next(flow) == 3


def test_a_flow_reports_metrics_of_its_operators_and_closes_them() -> None:
    store = WaitsForRoom()
    flow = from_items([1, 2]).for_each(store).for_each(str)
    assert flow.take(2) == ["1", "2"]
    assert flow.metrics() == {"stored": 2.0}
    flow.close()
    assert store.is_closed


def test_a_step_may_be_inserted_after_the_only_operator_of_a_type() -> None:
    flow = Flow(Numbers()).combine(Pairs("+")).for_each(str.upper).zip_with_worker()
    placed = flow.with_step_after(Pairs, lambda pair: f"<{pair}>")
    assert placed is flow
    assert [info.name for info in flow.describe()] == ["numbers", "Pairs", "<lambda>", "upper", "zip_with_worker"]
    assert flow.take(2) == [(2, "<0+1>"), (2, "<2+3>")]


def test_a_step_may_be_added_at_the_end_and_in_a_branch() -> None:
    placed = Flow(Numbers()).combine(Pairs("+")).with_step_after(Pairs, len)
    assert placed is not None
    assert placed.take(1) == [3]
    main, side = Flow(Numbers()).combine(Pairs("+")), from_items([0])
    joined = side.followed_by(main).with_step_after(Pairs, len)
    assert joined is not None
    assert [info.path for info in joined.describe()[0].branches[1]] == ["1/numbers", "1/Pairs", "1/len"]


def test_no_step_is_inserted_unless_the_plan_has_exactly_one_operator_of_the_type() -> None:
    assert Flow(Numbers()).for_each(str).with_step_after(Pairs, len) is None
    assert Flow(Numbers()).combine(Pairs("+")).combine(Pairs("|")).with_step_after(Pairs, len) is None


def test_a_step_may_be_added_within_a_chain_that_was_pulled_before() -> None:
    flow = Flow(Numbers()).for_each(Scale(10)).for_each(plus_one).for_each(str)
    assert flow.take(2) == ["1", "11"]
    assert flow.with_step_after(Scale, plus_one) is flow
    assert flow.take(2) == ["22", "32"]
    assert [timing.items for timing in flow.timings()] == [4, 4, 2, 4, 4]


class Gate(Operator):
    """Waits at every other pull."""

    def __init__(self) -> None:
        self.pulls = 0

    def __call__(self, item: int) -> int:
        return item

    def pending(self) -> Pending | None:
        self.pulls += 1
        return Pending(progressed=True) if self.pulls % 2 else None


def test_an_operator_that_waits_within_a_chain_keeps_the_source_from_being_pulled() -> None:
    numbers, gate = Numbers(), Gate()
    flow = Flow(numbers).for_each(plus_one).for_each(gate).for_each(Scale(10))
    assert isinstance(flow.node.poll(), Pending)
    assert (gate.pulls, numbers.next) == (1, 0)
    assert flow.take(2) == [10, 20]
    assert (gate.pulls, numbers.next) == (4, 2)


def test_each_operator_of_a_chain_is_timed_separately_and_named_if_it_raises_an_error(wording) -> None:
    def fails(item: int) -> None:
        raise ValueError(item)

    flow = Flow(Numbers()).for_each(plus_one).for_each(fails).for_each(str)
    flow.keep_spans()
    with pytest.raises(ValueError, match="1") as raised:
        next(flow)
    assert raised.value.__notes__ == wording()
    assert [len(timing.spans) for timing in flow.timings()] == [1, 1, 1, 0]
    *_, first, second, _ = flow.timings()
    assert first.spans[0][1] <= second.spans[0][0]
