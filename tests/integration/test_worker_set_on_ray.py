from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from stub_workers import LabError, StubConfig, SumSoFar, gate

from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.policy_workers import PolicyWorkers
from rlrun.engine.messages.errors import CheckpointError, EnvironmentUnusable, TrainingFailed
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_set import WorkerSet

pytestmark = pytest.mark.usefixtures("running_ray")

MakeSet = Callable[..., WorkerSet]


def policy_workers(workers: WorkerSet) -> PolicyWorkers:
    return PolicyWorkers(workers, "default")


def weights(version: int) -> dict[str, Weights]:
    return {"default": Weights(version, np.zeros(1000, np.float32))}


def rows_of_workers(flow: Flow[Any], number: int) -> list[list[int]]:
    """Returns (worker, fragment, weights version, fragments before the worker was made) of the next batches."""
    return [batch["row"][:4].tolist() for batch in flow.take(number)]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition: Callable[[], bool], seconds: float = 600.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def make_set(tmp_path: Path) -> Iterator[MakeSet]:
    sets = []

    def make(
        num_workers: int, kind: str = "StubWorker", timeout_s: float = 60.0, restarts: int = 3, **stub: Any
    ) -> WorkerSet:
        sets.append(
            WorkerSet(
                StubConfig(folder=tmp_path, **stub),
                num_workers,
                num_cpus_per_worker=1.0,
                worker_timeout_s=timeout_s,
                max_worker_restarts=restarts,
                factory=f"stub_workers:{kind}",
            )
        )
        return sets[-1]

    yield make
    for workers in sets:
        workers.close()


def test_synchronous_rollouts_arrive_in_rounds_ordered_by_worker_and_are_counted(make_set: MakeSet) -> None:
    workers = make_set(2, seconds={1: 0.3})
    flow = policy_workers(workers).rollouts()
    assert rows_of_workers(flow, 4) == [[1, 0, -1, 0], [2, 0, -1, 0], [1, 1, -1, 0], [2, 1, -1, 0]]
    assert workers.counts.env_steps == 40
    assert workers.counts.sample_s == 1.0
    assert [episode.episode_return for episode in workers.counts.take_episodes()] == [100.0, 200.0, 101.0, 201.0]
    assert workers.counts.take_episodes() == []
    deltas = workers.counts.take_filter_deltas("default")
    assert (deltas["returns"].count, float(deltas["returns"].mean)) == (4.0, 1.5)
    assert workers.counts.take_filter_deltas("default") == {}


def test_broadcast_weights_arrive_before_the_next_round_and_may_target_a_single_worker(
    make_set: MakeSet,
) -> None:
    workers = make_set(2)
    versions = iter(range(1, 100))

    def broadcast_after_a_round(batch: Any) -> list[list[int]]:
        if batch["row"][0] == 2:
            workers.started.order(Orders(weights(next(versions))))
        return [batch["row"][:3].tolist()]

    flow = policy_workers(workers).rollouts().combine(broadcast_after_a_round)
    workers.started.order(Orders(weights(0)))
    assert flow.take(6) == [[1, 0, 0], [2, 0, 0], [1, 1, 1], [2, 1, 1], [1, 2, 2], [2, 2, 2]]
    workers.started.order(Orders(weights(5)))
    workers.started.order(Orders(weights(6)), only=2)
    assert flow.take(2) == [[1, 3, 5], [2, 3, 6]]


@pytest.mark.parametrize("how", ["die", pytest.param("hang", marks=pytest.mark.chaos)])
def test_a_worker_lost_mid_fragment_is_replaced_and_its_request_is_repeated(make_set: MakeSet, how: str) -> None:
    workers = make_set(2, timeout_s=60.0 if how == "die" else 8.0, acts={(2, 1): how})
    flow = policy_workers(workers).rollouts()
    workers.started.order(Orders(weights(3)))
    workers.started.order(Orders({"another": weights(9)["default"]}))  # the last weights of each policy are sent again
    assert rows_of_workers(flow, 6) == [
        [1, 0, 3, 0],
        [2, 0, 3, 0],
        [1, 1, 3, 0],
        [2, 1, 3, 1],
        [1, 2, 3, 0],
        [2, 2, 3, 1],
    ]
    assert workers.worker_restarts == 1
    assert workers.counts.env_steps == 60


def test_killing_a_worker_process_does_not_end_the_run(make_set: MakeSet, tmp_path: Path) -> None:
    workers = make_set(2, acts={(1, 1): "hang"})
    flow = policy_workers(workers).rollouts()
    workers.started.order(Orders(weights(3)))
    pid = int(flow.take(2)[0]["row"][4])

    def kill_in_mid_fragment() -> None:
        wait_until((tmp_path / "1-1").exists)
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_in_mid_fragment)
    killer.start()
    first, second = flow.take(2)
    killer.join()
    assert first["row"][:4].tolist() == [1, 1, 3, 1]
    assert int(first["row"][4]) != pid
    assert second["row"][:4].tolist() == [2, 1, 3, 0]
    os.kill(int(second["row"][4]), signal.SIGKILL)  # between two rounds
    assert rows_of_workers(flow, 2) == [[1, 2, 3, 1], [2, 2, 3, 2]]
    assert workers.worker_restarts == 2


def test_a_worker_that_keeps_dying_ends_the_run_once_its_restarts_are_used_up(make_set: MakeSet) -> None:
    workers = make_set(1, restarts=2, acts={(1, 0): "always die"})
    began = time.monotonic()
    with pytest.raises(TrainingFailed, match=r"worker 1 died .*, and max_worker_restarts \(2\) is exhausted"):
        policy_workers(workers).rollouts().take(1)
    assert workers.worker_restarts == 2
    assert time.monotonic() - began > 1.0  # the second restart was delayed


def test_an_rlrun_error_in_a_worker_arrives_unchanged_and_is_not_retried(make_set: MakeSet) -> None:
    workers = make_set(1, acts={(1, 1): "lab-error"})
    with pytest.raises(LabError) as caught:
        policy_workers(workers).rollouts().take(2)
    assert str(caught.value) == "laser is at 4.2 K"
    assert caught.value.temperature == 4.2
    assert type(caught.value) is LabError
    assert caught.value.__cause__ is None
    assert workers.worker_restarts == 0


@pytest.mark.parametrize(
    ("how", "last_line"),
    [("value-error", "ValueError: no such lever"), ("exit", "SystemExit: the simulator went home")],
)
def test_an_error_from_outside_rlrun_in_a_worker_arrives_with_its_own_traceback(
    make_set: MakeSet, how: str, last_line: str
) -> None:
    workers = make_set(1, acts={(1, 0): how})
    with pytest.raises(TrainingFailed) as caught:
        policy_workers(workers).rollouts().take(1)
    first, *_, last = str(caught.value).splitlines()
    assert first == "rollout worker 1 failed:"
    assert last == last_line
    assert "in act" in str(caught.value)
    assert "ray" not in str(caught.value).lower()
    assert workers.worker_restarts == 0


def test_the_error_of_an_env_that_a_worker_cannot_create_arrives_unchanged(make_set: MakeSet) -> None:
    with pytest.raises(EnvironmentUnusable, match=r"^Lab-v3 needs a laser: pip install 'rlrun\[laser\]'$"):
        policy_workers(make_set(1, kind="unusable")).rollouts().take(1)


def test_an_error_from_weights_that_a_worker_refuses_is_raised_with_its_next_fragment(make_set: MakeSet) -> None:
    workers = make_set(1)
    flow = policy_workers(workers).rollouts()
    workers.started.order(Orders(weights(666)))
    with pytest.raises(LabError, match=r"weights is at 66.6 K"):
        flow.take(1)


def test_asynchronous_rollouts_do_not_wait_for_the_slowest_worker(make_set: MakeSet, tmp_path: Path) -> None:
    workers = make_set(2, acts={(1, 0): "wait"})
    flow = policy_workers(workers).rollouts(mode="async", in_flight=2)
    assert [row[:2] for row in rows_of_workers(flow, 12)] == [[2, fragment] for fragment in range(12)]
    gate(tmp_path, 1).touch()
    while rows_of_workers(flow, 1)[0][:2] != [1, 0]:
        pass


def test_weights_sent_to_a_worker_take_effect_after_its_fragments_in_flight(make_set: MakeSet) -> None:
    workers = make_set(2)
    version = 0

    def send(item: tuple[int | None, Any]) -> list[int]:
        nonlocal version
        version += 1
        worker, batch = item
        workers.started.order(Orders(weights(version)), only=worker)
        return [int(worker or 0), *batch["row"][1:3].tolist(), version]

    flow = policy_workers(workers).rollouts(mode="async", in_flight=2).zip_with_worker().for_each(send)
    sent: dict[tuple[int, int], int] = {}
    for worker, fragment, acted_with, latest in flow.take(20):
        sent[worker, fragment] = latest
        assert acted_with == sent.get((worker, fragment - 2), -1)


@pytest.mark.parametrize("how", ["die", pytest.param("hang", marks=pytest.mark.chaos)])
def test_a_lost_asynchronous_worker_continues_with_the_next_undelivered_fragment(make_set: MakeSet, how: str) -> None:
    workers = make_set(2, timeout_s=60.0 if how == "die" else 8.0, acts={(1, 2): how}, seconds={2: 0.2})
    workers.started.order(Orders(weights(3)))
    flow = policy_workers(workers).rollouts(mode="async", in_flight=2)
    delivered: list[list[int]] = []
    while sum(row[0] == 1 for row in delivered) < 5:
        delivered += rows_of_workers(flow, 1)
    due = delivered[-1][3]
    assert due == 2 or (due, how) == (1, "die")  # a dying worker may not send its last answer
    expected = [[fragment, 3, due if fragment >= due else 0] for fragment in range(5)]
    assert [row[1:] for row in delivered if row[0] == 1] == expected
    assert workers.worker_restarts == 1


def test_operators_run_on_workers_and_their_state_is_restored_for_the_same_worker_count(make_set: MakeSet) -> None:
    def pids_and_items(flow: Flow[Any], number: int) -> list[list[int]]:
        return [batch["row"].tolist() for batch in flow.take(number)]

    workers = make_set(2)
    flow = policy_workers(workers).rollouts(SumSoFar())
    first = pids_and_items(flow, 4)
    assert [items for _, items in first] == [1, 1, 2, 2]
    assert len({pid for pid, _ in first} | {os.getpid()}) == 3
    state = workers.state()
    with pytest.raises(CheckpointError, match="saved with 2 rollout workers and cannot be resumed with 1"):
        make_set(1).load_state(state)
    again = make_set(2)
    flow = policy_workers(again).rollouts(SumSoFar())
    again.load_state(state)
    assert [items for _, items in pids_and_items(flow, 2)] == [3, 3]


def test_a_worker_set_continues_from_the_saved_state_of_another_set(make_set: MakeSet) -> None:
    workers, again = make_set(2, acts={(1, 1): "die"}), make_set(2)
    flow = policy_workers(workers).rollouts()
    flow.take(5)
    state, flow_state = workers.state(), flow.state()
    assert state["env_steps"] == 60
    restored = policy_workers(again).rollouts()
    assert again.load_state(state) == 1 + 2
    restored.load_state(flow_state)
    again_rows = rows_of_workers(restored, 3)
    assert (
        [row[:3] for row in again_rows]
        == [row[:3] for row in rows_of_workers(flow, 3)]
        == [[2, 2, -1], [1, 3, -1], [2, 3, -1]]
    )
    assert (again.counts.env_steps, again.worker_restarts) == (80, 1)
    assert [episode.episode_return for episode in again.counts.take_episodes()] == [
        episode.episode_return for episode in workers.counts.take_episodes()
    ]
    assert again.counts.take_filter_deltas("default")["returns"].count == 8.0


def test_a_worker_actor_has_one_thread_and_imports_only_what_its_object_needs(make_set: MakeSet) -> None:
    workers = make_set(1, kind="ModulesWorker")
    assert policy_workers(workers).rollouts().take(1)[0]["row"].tolist() == ["1", "1", "1"]


def test_closing_a_worker_set_closes_the_envs_and_ends_the_worker_processes(make_set: MakeSet, tmp_path: Path) -> None:
    workers = make_set(2)
    pids = [int(batch["row"][4]) for batch in policy_workers(workers).rollouts().take(2)]
    workers.close()
    assert sorted(path.name for path in tmp_path.glob("closed-*")) == ["closed-1", "closed-2"]
    wait_until(lambda: not any(is_alive(pid) for pid in pids))


def test_workers_run_in_the_placement_group_of_the_trial_that_creates_them(make_set: MakeSet, tmp_path: Path) -> None:
    from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    @ray.remote(num_cpus=1, runtime_env={"env_vars": {"PYTHONPATH": str(Path(__file__).parent)}})
    class Trial:
        def run(self, folder: Path) -> list[list[str]]:
            workers = WorkerSet(
                StubConfig(folder=folder),
                2,
                num_cpus_per_worker=0.5,
                worker_timeout_s=60,
                max_worker_restarts=0,
                factory="stub_workers:PlacedWorker",
            )
            placed = [batch["row"].tolist() for batch in policy_workers(workers).rollouts().take(2)]
            workers.close()
            return placed

    group = placement_group([{"CPU": 1}, {"CPU": 0.5}, {"CPU": 0.5}])
    ray.get(group.ready())
    strategy = PlacementGroupSchedulingStrategy(
        placement_group=group, placement_group_bundle_index=0, placement_group_capture_child_tasks=True
    )
    trial = Trial.options(scheduling_strategy=strategy).remote()
    assert ray.get(trial.run.remote(tmp_path)) == [[group.id.hex()], [group.id.hex()]]
    assert placement_group_table(group)["state"] == "CREATED"
    ray.kill(trial)
    remove_placement_group(group)
