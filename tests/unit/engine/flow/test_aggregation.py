from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from rlrun import APPO, Impala, Training
from rlrun.engine.flow.plan import plan_text
from rlrun.engine.flow.policy_workers import PolicyWorkers
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.rollout.aggregated_workers import shares
from rlrun.engine.rollout.worker_config import WorkerConfig
from rlrun.engine.rollout.worker_set import WorkerSet


def worker_set(num_workers: int) -> WorkerSet:
    no_env: Any = None  # nothing is started, so nothing is made from it
    return WorkerSet(WorkerConfig(no_env, 1, 10, seed=0, behaviors={}, rewards={}), num_workers)


@pytest.mark.parametrize("algorithm", [Impala, APPO])
def test_a_plan_begins_with_the_aggregators_that_the_config_asks_for(
    algorithm: type[Impala] | type[APPO], wording
) -> None:
    described = Training("CartPole-v1", algorithm(num_workers=4, num_aggregators=2)).description
    plan = plan_text(described.plan().describe())
    size = algorithm.Config().train_batch_size
    assert plan.splitlines()[0] == wording(size, "aggregated_rollouts", "in_flight", "batch_size")
    plan = plan_text(Training("CartPole-v1", algorithm(num_workers=4)).description.plan().describe())
    assert plan.splitlines()[0] == "parallel_rollouts(workers=4, mode=async, in_flight=2)"


def test_a_local_worker_needs_no_aggregators() -> None:
    flow = PolicyWorkers(worker_set(0), "default").rollouts(mode="async", aggregators=2, batch_size=100)
    assert plan_text(flow.describe()) == "parallel_rollouts(workers=local, mode=async, in_flight=2)"


def test_no_more_aggregators_than_workers_are_used() -> None:
    workers = worker_set(3)
    flow = PolicyWorkers(workers, "default").rollouts(mode="async", aggregators=8, batch_size=100, in_flight=1)
    assert workers.deliverers == (1, 2, 3)
    assert flow.describe()[0].settings["aggregators"] == 3


def test_a_negative_number_of_aggregators_is_refused() -> None:
    with pytest.raises(SpecError, match="num_aggregators"):
        Training("CartPole-v1", Impala(num_aggregators=-1))


@pytest.mark.parametrize(("workers", "aggregators"), [(0, 1), (2, 3), (2, 0)])
def test_workers_are_gathered_behind_one_to_as_many_aggregators(workers: int, aggregators: int, wording) -> None:
    with wording.raised(ValueError, workers, aggregators):
        worker_set(workers).gather(aggregators, 100, 2, "default")


@pytest.mark.parametrize(("workers", "aggregators"), [(5, 2), (8, 3), (128, 7)])
def test_every_worker_stands_behind_one_aggregator_and_shares_are_even(workers: int, aggregators: int) -> None:
    indices = range(1, workers + 1)
    parts = [indices[share] for share in shares(workers, aggregators)]
    assert len(parts) == aggregators
    assert [index for part in parts for index in part] == list(indices)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_an_aggregator_imports_no_torch() -> None:
    program = (
        "import sys, rlrun.engine.rollout.aggregator, rlrun.engine.rollout.worker_set\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
