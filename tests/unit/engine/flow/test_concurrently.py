from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rlrun.engine.flow.concurrently import concurrently
from rlrun.engine.flow.flow import Flow, FlowStalled
from rlrun.engine.flow.nodes import Delivered, Pending, Polled, Source
from rlrun.engine.flow.sources.items import from_items
from rlrun.engine.messages.errors import UsageError


class Replay(Source):
    """Has items once enough are stored, like a replay with `learning_starts`."""

    def __init__(self, stored: Sequence[Any], learning_starts: int) -> None:
        super().__init__("replay")
        self.stored = stored
        self.learning_starts = learning_starts

    def next_item(self) -> Polled:
        if len(self.stored) < self.learning_starts:
            return Pending(reasons=(f"the replay holds {len(self.stored)} of {self.learning_starts}",))
        return Delivered(f"replayed of {len(self.stored)}")


class Worker(Source):
    """Is ready some time after a request, like a rollout worker."""

    def __init__(self, letter: str, seconds: float, barrier: bool = False) -> None:
        super().__init__(letter)
        self.letter = letter
        self.seconds = seconds
        self.barrier = barrier
        self.ready_at: float | None = None

    def next_item(self) -> Polled:
        if self.ready_at is None:
            self.ready_at = time.monotonic() + self.seconds
        if time.monotonic() < self.ready_at:
            return Pending(deadline=self.ready_at, barrier=self.barrier)
        self.ready_at = None
        return Delivered(self.letter)


Letters = Callable[[str], list[Flow[str]]]


def every(number: int) -> Callable[[Any], list[Any]]:
    held: list[Any] = []

    def combined(item: Any) -> list[Any]:
        held.append(item)
        if len(held) < number:
            return []
        joined = tuple(held)
        held.clear()
        return [joined]

    return combined


def test_branches_take_turns(letters: Letters) -> None:
    assert concurrently(*letters("abc")).take(7) == ["a0", "b0", "c0", "a1", "b1", "c1", "a2"]


def test_weights_set_the_proportions(letters: Letters) -> None:
    assert concurrently(*letters("ab"), weights=(1, 3)).take(8) == ["a0", "b0", "b1", "b2", "a1", "b3", "b4", "b5"]


def test_only_items_of_the_output_branch_are_returned_while_all_branches_run(letters: Letters) -> None:
    done: list[str] = []
    first, second = letters("ab")
    work = first.for_each(done.append)
    assert concurrently(work, second, weights=(2, 1), output=second).take(3) == ["b0", "b1", "b2"]
    assert done == ["a0", "a1", "a2", "a3", "a4", "a5"]


def test_several_branches_may_be_the_output(letters: Letters) -> None:
    first, second, third = letters("abc")
    assert concurrently(first, second, third, output=[first, third]).take(4) == ["a0", "c0", "a1", "c1"]


def test_the_stream_ends_when_its_last_output_branch_ends(letters: Letters) -> None:
    short, long = from_items([1]), from_items([7, 8, 9])
    assert list(concurrently(short, long)) == [1, 7, 8, 9]
    short, endless = from_items([1, 2]), letters("a")[0]
    assert list(concurrently(endless, short, output=short)) == [1, 2]


def test_a_replay_that_has_not_reached_learning_starts_does_not_block_the_branch_that_fills_it(
    letters: Letters,
) -> None:
    stored: list[str] = []

    def store(item: str) -> str:
        stored.append(item)
        return item

    filling = letters("a")[0].for_each(store)
    learning: Flow[str] = Flow(Replay(stored, learning_starts=3))
    for flows in ((filling, learning), (learning, filling)):
        stored.clear()
        learned = concurrently(*flows, output=learning).take(2)
        assert learned == ["replayed of 3", "replayed of 4"]


def test_a_replay_buffer_that_nothing_fills_raises_an_error_instead_of_waiting_forever(wording) -> None:
    learning: Flow[str] = Flow(Replay([], learning_starts=3))
    with wording.raised(FlowStalled):
        concurrently(learning, learning.for_each(str)).take(1)


def test_the_copies_of_a_stream_may_be_pulled_unevenly(letters: Letters) -> None:
    first, second = letters("a")[0].duplicate(2)
    many, one = first.combine(every(50)), second
    flow = concurrently(many, one, output=many)
    assert [len(batch) for batch in flow.take(3)] == [50, 50, 50]
    first, second = letters("a")[0].duplicate(2)
    got = concurrently(first, second.combine(every(20)), weights=(1, 4)).take(105)
    singles = [item for item in got if isinstance(item, str)]
    assert singles == [f"a{number}" for number in range(len(singles))]
    assert [item for item in got if isinstance(item, tuple)] == [
        tuple(f"a{number}" for number in range(start, start + 20)) for start in range(0, 20 * (105 - len(singles)), 20)
    ]


def test_a_branch_that_is_not_ready_forfeits_its_turn(letters: Letters) -> None:
    worker, fast = Worker("slow", 600), letters("f")[0]
    flow = concurrently(Flow(worker), fast)
    assert flow.take(3) == ["f0", "f1", "f2"]
    worker.ready_at = time.monotonic()
    assert "slow" in flow.take(2)


def test_turns_wait_for_a_branch_with_a_barrier_so_that_speed_does_not_affect_their_order(letters: Letters) -> None:
    slow, fast = Flow(Worker("slow", 0.02, barrier=True)), letters("f")[0]
    assert concurrently(slow, fast, weights=(1, 2)).take(5) == ["slow", "f0", "f1", "slow", "f2"]


def test_if_no_branch_is_ready_the_root_waits_until_any_of_them_is() -> None:
    flow = concurrently(Flow(Worker("a", 600)), Flow(Worker("b", 0.1)), Flow(Worker("c", 600)))
    assert flow.take(2) == ["b", "b"]  # if the flow had waited for `a` first, `a` would be here, too


def test_flows_may_be_nested(letters: Letters) -> None:
    a, b, c = letters("abc")
    inner = concurrently(a, b)
    flow = concurrently(inner, c)
    assert flow.take(6) == ["a0", "c0", "b0", "c1", "a1", "c2"]
    assert [info.path for info in flow.describe()[0].branches[0]] == ["0/concurrently"]
    assert [info.path for info in flow.describe()[0].branches[0][0].branches[1]] == ["0/1/b"]


def test_an_inner_branch_that_never_runs_dry_does_not_starve_the_outer_flow(
    letters: Letters,
) -> None:
    fragments = letters("f")[0]
    stored, batches = fragments.duplicate(2, lead=2)
    minibatches: list[str] = []

    def learn(minibatch: str) -> None:
        assert len(minibatches) < 100, "learning holds up what is to bring new fragments"
        minibatches.append(minibatch)

    learning = letters("m")[0].for_each(learn)
    replay = concurrently(stored, learning, output=stored)
    flow = concurrently(replay, batches.combine(lambda fragment: [f"{fragment}a", f"{fragment}b"]))  # two turns each
    got = flow.take(30)
    halves = [item for item in got if item[-1] in "ab"]
    assert [item for item in got if item not in halves] == [f"f{number}" for number in range(30 - len(halves))]
    assert halves == [f"f{number}{half}" for number in range(10) for half in "ab"][: len(halves)]
    assert len(halves) == 19  # neither branch is more than two fragments ahead of the other


@pytest.mark.parametrize("pulled", range(7))
def test_a_restored_flow_continues_with_the_branch_whose_turn_it_was(letters: Letters, pulled: int) -> None:
    flow, restored = (concurrently(*letters("ab"), weights=(1, 3)) for _ in range(2))
    flow.take(pulled)
    restored.load_state(flow.state())
    assert restored.take(6) == flow.take(6)


@pytest.mark.parametrize("pulled", [1, 2, 5])
def test_copies_of_a_stream_in_two_branches_are_saved_once_and_continue_identically(
    letters: Letters, pulled: int
) -> None:
    def made() -> Flow[Any]:
        first, second = letters("a")[0].duplicate(2)
        return concurrently(first.for_each(str.upper), second, weights=(3, 1))

    flow, restored = made(), made()
    flow.take(pulled)
    state = flow.state()
    assert state["plan"] == ["0/a", "0/duplicate", "0/copy", "0/upper", "1/copy", "concurrently"]
    restored.load_state(state)
    assert restored.take(9) == flow.take(9)


@pytest.mark.parametrize("weights", [(1,), (1, 0), (1, -2), (1.5, 1), (True, 1)])
def test_weights_that_are_not_one_positive_whole_number_per_branch_are_refused(
    letters: Letters, weights: Any, wording
) -> None:
    with wording.raised(UsageError):
        concurrently(*letters("ab"), weights=weights)


def test_a_single_flow_and_an_output_that_is_not_one_of_the_branches_are_refused(letters: Letters, wording) -> None:
    first, second, third = letters("abc")
    with wording.raised(UsageError):
        concurrently(first)
    with wording.raised(UsageError):
        concurrently(first, second, output=third)
