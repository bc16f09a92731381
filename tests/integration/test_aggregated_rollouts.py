from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from stub_workers import LabError, StubConfig, actor_pids

from rlrun import Impala, Training
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.plan import plan_text
from rlrun.engine.flow.policy_workers import PolicyWorkers
from rlrun.engine.messages.errors import TrainingFailed
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.rollout import DEFAULT_POLICY
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_set import WorkerSet

pytestmark = pytest.mark.usefixtures("running_ray")

MakeSet = Callable[..., WorkerSet]


@pytest.fixture
def make_set(tmp_path: Path) -> Iterator[MakeSet]:
    sets = []

    def make(num_workers: int, timeout_s: float = 60.0, restarts: int = 3, **stub: Any) -> WorkerSet:
        sets.append(
            WorkerSet(
                StubConfig(folder=tmp_path, **stub),
                num_workers,
                worker_timeout_s=timeout_s,
                max_worker_restarts=restarts,
                factory="stub_workers:ColumnsWorker",
            )
        )
        return sets[-1]

    yield make
    for workers in sets:
        workers.close()


def aggregated_rollouts(workers: WorkerSet, aggregators: int, batch_size: int) -> Flow[Any]:
    view = PolicyWorkers(workers, DEFAULT_POLICY)
    return view.rollouts(mode="async", aggregators=aggregators, batch_size=batch_size)


def weights(version: int) -> dict[str, Weights]:
    return {"default": Weights(version, np.zeros(1000, np.float32))}


def exhaust(flow: Flow[Any]) -> None:
    for _ in flow:  # workers start one after another; until the one that matters is there, others deliver
        pass


def wait_until(condition: Callable[[], bool], seconds: float = 600.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def rows_with_pids(flow: Flow[Any], batches: int) -> list[list[list[int]]]:
    """Returns (worker, fragment, version, fragments before it was made, pid) of the fragments of the next batches."""
    return [batch["row"][0].tolist() for batch in flow.take(batches)]


def waiting(flow: Flow[Any]) -> list[list[int]]:
    """Returns the fragments in the batches that are counted and not pulled."""
    here = flow.state()["operators"]["aggregated_rollouts"]["here"]
    return [row for saved in here for row in saved["item"]["row"][0].tolist()]


def test_every_fragment_counts_once_and_comes_in_a_batch_of_its_aggregator_with_its_own_weights(
    make_set: MakeSet,
) -> None:
    workers = make_set(3)
    flow = aggregated_rollouts(workers, aggregators=2, batch_size=4)
    assert plan_text(flow.describe()) == (
        "aggregated_rollouts(workers=3, mode=async, in_flight=2, aggregators=2, batch_size=4)"
    )
    workers.order(Orders(weights(7)))
    workers.order(Orders(weights(8)), only=2)  # before their first fragment
    batches: list[tuple[int | None, Any]] = []
    while {aggregator for aggregator, _ in batches} != {1, 2} or len(batches) < 6:
        batches += flow.zip_with_worker().take(1)
    for aggregator, batch in batches:
        assert batch["row"].shape == (1, 4, 5)
        assert batch["valid"].shape == batch["weights_version"].shape == (1, 4)
        assert set(batch["row"][0, :, 0]) <= ({1} if aggregator == 1 else {2, 3})
        assert (
            batch["weights_version"].tolist() == batch["row"][:, :, 2].tolist() == [[7 if aggregator == 1 else 8] * 4]
        )
    counted = [row[:2] for _, batch in batches for row in batch["row"][0].tolist()]
    counted += [row[:2] for row in waiting(flow)]
    for worker in (1, 2, 3):
        fragments = [fragment for own, fragment in counted if own == worker]
        assert fragments == list(range(len(fragments)))
    assert workers.counts.env_steps == 10 * len(counted)
    assert workers.counts.sample_s == 0.25 * len(counted)
    assert sorted(episode.episode_return for episode in workers.counts.take_episodes()) == sorted(
        100.0 * worker + fragment for worker, fragment in counted
    )
    assert workers.counts.take_filter_deltas("default")["returns"].count == len(counted)
    assert workers.worker_restarts == 0


@pytest.mark.chaos
def test_a_worker_that_is_lost_behind_an_aggregator_is_made_anew_and_its_aggregator_is_not(make_set: MakeSet) -> None:
    workers = make_set(1, timeout_s=8.0, acts={(1, 1): "die", (1, 4): "hang"})
    flow = aggregated_rollouts(workers, aggregators=1, batch_size=3)
    workers.order(Orders(weights(3)))
    delivered = [row[1:4] for batch in rows_with_pids(flow, 2) for row in batch]
    # Who dies may take an answer along that nobody had fetched; then the next life begins with that one.
    dead = delivered[1][2]
    assert dead in (0, 1)
    assert delivered == [[0, 3, 0], [1, 3, dead], [2, 3, dead], [3, 3, dead], [4, 3, 4], [5, 3, 4]]
    assert workers.worker_restarts == 2


def test_an_aggregator_that_dies_is_made_anew_with_its_workers_and_loses_only_what_was_not_delivered(
    make_set: MakeSet,
) -> None:
    others = set(actor_pids())
    workers = make_set(2)
    flow = aggregated_rollouts(workers, aggregators=2, batch_size=2)
    workers.order(Orders(weights(3)))
    delivered: list[list[int]] = []
    while {row[0] for row in delivered} != {1, 2}:
        delivered += rows_with_pids(flow, 1)[0]
    of_workers = {row[0]: row[4] for row in delivered}
    aggregators = set(actor_pids()) - others - set(of_workers.values())
    assert len(aggregators) == 2
    os.kill(min(aggregators), signal.SIGKILL)
    while len({row[4] for row in delivered}) < 3:
        delivered += rows_with_pids(flow, 1)[0]
    (renewed,) = {row[0] for row in delivered if row[3]}
    delivered += [row for batch in rows_with_pids(flow, 2) for row in batch]
    assert workers.worker_restarts == 1
    counted = delivered + waiting(flow)
    assert workers.counts.env_steps == 10 * len(counted)
    for worker in (1, 2):
        fragments = [row[1] for row in counted if row[0] == worker]
        assert fragments == list(range(len(fragments)))
    assert all(row[2] == 3 for row in counted)
    wait_until(lambda: of_workers[renewed] not in actor_pids())  # a worker does not outlive its aggregator


def test_more_restarts_behind_aggregators_than_are_allowed_end_the_run(make_set: MakeSet) -> None:
    workers = make_set(2, restarts=1, acts={(1, 1): "die", (2, 1): "die"})
    flow = aggregated_rollouts(workers, aggregators=2, batch_size=1)
    with pytest.raises(TrainingFailed, match=r"2 rollout workers and aggregators had to be restarted, but max_worker"):
        exhaust(flow)


def test_an_error_behind_an_aggregator_arrives_as_it_was(make_set: MakeSet) -> None:
    flow = aggregated_rollouts(make_set(1, acts={(1, 1): "lab-error"}), aggregators=1, batch_size=2)
    with pytest.raises(LabError) as caught:
        exhaust(flow)
    assert (str(caught.value), caught.value.temperature) == ("laser is at 4.2 K", 4.2)


def test_workers_behind_aggregators_are_restored_whatever_stands_between(make_set: MakeSet) -> None:
    workers = make_set(2)
    flow = aggregated_rollouts(workers, aggregators=2, batch_size=2)
    delivered = [row for batch in rows_with_pids(flow, 4) for row in batch]
    state = workers.state()
    made = [saved["worker"]["fragment"] for saved in state["workers"]]
    assert all(made[row[0] - 1] > row[1] for row in delivered)
    assert state["next_fragments"] == [
        1 + max((row[1] for row in delivered + waiting(flow) if row[0] == worker), default=-1) for worker in (1, 2)
    ]
    workers.close()
    again = make_set(2)
    restored = aggregated_rollouts(again, aggregators=1, batch_size=3)
    assert again.load_state(state) == 1 + 2
    assert again.counts.env_steps == state["env_steps"]
    firsts: dict[int, int] = {}
    while len(firsts) < 2:
        for row in rows_with_pids(restored, 1)[0]:
            firsts.setdefault(row[0], row[1])
    assert firsts == dict(zip((1, 2), made, strict=True))


def test_workers_behind_an_aggregator_run_in_the_placement_group_of_the_trial(tmp_path: Path) -> None:
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    @ray.remote(num_cpus=1, runtime_env={"env_vars": {"PYTHONPATH": str(Path(__file__).parent)}})
    class Trial:
        def run(self, folder: Path) -> list[str]:
            workers = WorkerSet(
                StubConfig(folder=folder), 1, num_cpus_per_worker=0.5, factory="stub_workers:PlacedWorker"
            )
            flow = aggregated_rollouts(workers, aggregators=1, batch_size=1)
            placed = [str(batch["row"][0]) for batch in flow.take(1)]
            workers.close()
            return placed

    group = placement_group([{"CPU": 1}, {"CPU": 0.5}])
    ray.get(group.ready())
    strategy = PlacementGroupSchedulingStrategy(
        placement_group=group, placement_group_bundle_index=0, placement_group_capture_child_tasks=True
    )
    trial = Trial.options(scheduling_strategy=strategy).remote()
    assert ray.get(trial.run.remote(tmp_path)) == [group.id.hex()]
    ray.kill(trial)
    remove_placement_group(group)


def test_impala_learns_from_aggregated_batches_and_leaves_no_process() -> None:
    others = set(actor_pids())
    config = {
        "num_workers": 2,
        "num_aggregators": 1,
        "num_envs_per_worker": 4,
        "train_batch_size": 160,
        "min_env_steps_per_iteration": 300,
        "model": {"hiddens": [8]},
        "normalize_observations": True,
    }
    with Training("CartPole-v1", Impala(**config)) as training:
        for _ in range(2):
            result = training.step()
        assert result["env_steps"] > 600
        assert result["policy_lag_max"] >= 1
        assert result["sgd_steps"] == result["weights_version"]
        assert training.running.trainee.filters.moments["observations/"].count > 300
    wait_until(lambda: set(actor_pids()) <= others)
