from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from stub_workers import StubConfig, gate

from rlrun.engine.actors.batch_ref import BatchRef
from rlrun.engine.flow import policy_workers
from rlrun.engine.flow.concurrently import concurrently
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.batch_refs import LeaveOnWorker
from rlrun.engine.flow.policy_workers import PolicyWorkers
from rlrun.engine.rollout.rollout import DEFAULT_POLICY
from rlrun.engine.rollout.worker_set import WorkerSet

pytestmark = pytest.mark.usefixtures("running_ray")

MakeSet = Callable[..., WorkerSet]

LEAVE_ALL = partial(LeaveOnWorker, carried_up_to_bytes=0)
"""Creates the operator that leaves fragments of every size on their workers."""


@pytest.fixture
def make_set(tmp_path: Path) -> Iterator[MakeSet]:
    sets = []

    def make(num_workers: int, **stub: Any) -> WorkerSet:
        config = StubConfig(folder=tmp_path, **stub)
        sets.append(WorkerSet(config, num_workers, max_worker_restarts=3, factory="stub_workers:StubWorker"))
        return sets[-1]

    yield make
    for workers in sets:
        workers.close()


def rollouts(workers: WorkerSet, in_flight: int = 2) -> Flow[Any]:
    return PolicyWorkers(workers, DEFAULT_POLICY).rollouts(mode="async", in_flight=in_flight)


def pulled(flow: Flow[Any], number: int) -> list[tuple[int, int]]:
    """Returns (worker, fragment) of the next batches."""
    return [(int(batch["row"][0]), int(batch["row"][1])) for batch in flow.take(number)]


def fragments_made(workers: WorkerSet) -> list[int]:
    """Returns how many fragments each worker has made; the question is answered after all of them."""
    return [state["worker"]["fragment"] for state in workers.state()["workers"]]


def test_a_worker_makes_at_most_in_flight_fragments_ahead_of_a_slow_driver(
    make_set: MakeSet,
) -> None:
    workers = make_set(2)
    flow = rollouts(workers, in_flight=3)
    taken: Counter[int] = Counter()
    for _ in range(4):
        ((last, _),) = pulled(flow, 1)
        taken[last] += 1
        time.sleep(0.2)  # enough time for hundreds of fragments
    # The worker that delivered last gets its next request with the next pull.
    assert fragments_made(workers) == [3 + taken[worker] - (worker == last) for worker in (1, 2)]


def test_a_fragment_that_arrived_before_its_worker_died_is_not_repeated(make_set: MakeSet) -> None:
    workers = make_set(1, acts={(1, 1): "die"})
    workers.started.request(1)
    workers.started.request(1)
    state = workers.state()  # meanwhile the first fragment arrives, and the worker dies while it makes the second
    assert workers.worker_restarts == 1
    assert [rollout.fragment for rollout in workers.started.arrived()] == [0, 1]
    assert state["workers"][0]["worker"] == {"fragment": 2}


def test_a_driver_that_waits_for_fragments_does_not_poll(make_set: MakeSet) -> None:
    flow = rollouts(make_set(2, seconds={1: 1.0, 2: 1.0}), in_flight=1)
    flow.take(2)
    polls = flow.timings()[0].items
    flow.take(2)
    assert flow.timings()[0].items == polls + 2


def test_two_asynchronous_sources_run_side_by_side_each_at_its_own_speed(make_set: MakeSet, tmp_path: Path) -> None:
    slow = rollouts(make_set(1, acts={(1, 1): "wait"}))
    fast = rollouts(make_set(2)).for_each(lambda batch: {"row": batch["row"] + 1000})
    both = concurrently(slow, fast)
    first: set[bool] = set()
    while len(first) < 2:
        first.add(pulled(both, 1)[0][0] > 1000)
    assert all(worker > 1000 for worker, _ in pulled(both, 4))
    gate(tmp_path, 1).touch()
    while (item := pulled(both, 1)[0])[0] > 1000:
        pass
    assert item == (1, 1)


def test_after_a_restore_waiting_fragments_are_delivered_first_and_counted_once(make_set: MakeSet) -> None:
    workers = make_set(2)
    flow = rollouts(workers, in_flight=2)
    taken: list[tuple[int, int]] = []
    while not flow.state()["operators"]["parallel_rollouts"]["here"]:
        time.sleep(0.2)  # both workers have fragments ready by then, so one fragment is left waiting
        taken += pulled(flow, 1)
    saved, saved_flow = workers.state(), flow.state()
    (waiting,) = saved_flow["operators"]["parallel_rollouts"]["here"]
    again = make_set(2)
    restored = rollouts(again, in_flight=2)
    again.load_state(saved)
    restored.load_state(saved_flow)
    assert again.counts.env_steps == 10 * (len(taken) + 1)
    after = pulled(restored, 7)
    assert after[0] == (waiting["worker"], int(waiting["item"]["row"][1]))
    assert again.counts.env_steps >= 10 * (len(taken) + 7)
    for worker in (1, 2):  # fragments in flight are lost, and none arrives twice
        fragments = [fragment for own, fragment in [*taken, *after] if own == worker]
        assert fragments == sorted(set(fragments))
    for worker, state, made in zip((1, 2), saved["workers"], fragments_made(again), strict=True):
        pulled_of_it = sum(own == worker for own, _ in after)
        assert made - state["worker"]["fragment"] <= 2 + pulled_of_it


def test_saved_state_contains_the_data_of_fragments_left_on_workers(
    make_set: MakeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_workers, "LEAVE_ON_WORKER", f"{__name__}:LEAVE_ALL")
    flow = PolicyWorkers(make_set(2), DEFAULT_POLICY).rollouts(mode="async", deliver="references")
    waiting: list[Any] = []
    while not waiting:
        time.sleep(0.2)  # both workers have fragments ready by then, so one fragment is left waiting
        assert isinstance(next(flow), BatchRef)
        waiting = flow.state()["operators"]["parallel_rollouts"]["here"]
    restored = PolicyWorkers(make_set(2), DEFAULT_POLICY).rollouts(mode="async", deliver="references")
    restored.load_state({"plan": ["parallel_rollouts"], "operators": {"parallel_rollouts": {"here": waiting}}})
    assert [int(batch["row"][0]) for batch in restored.take(len(waiting))] == [saved["worker"] for saved in waiting]
