from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow, StatefulOperator
from rlrun.engine.flow.plan import plan_text
from rlrun.engine.flow.policy_workers import PolicyWorkers
from rlrun.engine.functional.moments import Moments
from rlrun.engine.messages.errors import CheckpointError
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.rollout import Episode, Rollout
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_set import WorkerSet


@dataclass(frozen=True)
class StubConfig:
    worker_index: int = 0
    first_fragment: int = 0
    behaviors: tuple[()] = ()


class StubWorker:
    """Delivers [fragment, weights version]."""

    made = 0
    closed = 0

    def __init__(self, config: StubConfig) -> None:
        type(self).made += 1
        self.config = config
        self.fragment = config.first_fragment
        self.version = -1

    def follow(self, orders: Orders) -> None:
        self.version = orders.weights["default"].version

    def sample(self) -> Rollout:
        self.fragment += 1
        return Rollout(
            worker_index=self.config.worker_index,
            fragment=self.fragment - 1,
            batches={
                "default": SampleBatch(row=np.array([self.fragment - 1, self.version]), valid=np.ones((1, 1), np.bool_))
            },
            episodes=[Episode(float(self.fragment), 3, {"energy": 0.5})],
            filter_deltas={"default": {"returns": Moments(1.0, np.array(float(self.fragment)), np.array(0.0))}},
            env_steps=10,
            weights_versions={"default": self.version},
            sample_s=0.5,
        )

    def state(self) -> dict[str, Any]:
        return {"fragment": self.fragment}

    def load_state(self, state: Mapping[str, Any]) -> int:
        self.fragment = state["fragment"]
        return 2

    def close(self) -> None:
        type(self).closed += 1


class CountItems(StatefulOperator):
    def __init__(self) -> None:
        self.items = 0

    def __call__(self, item: SampleBatch) -> SampleBatch:
        self.items += 1
        return SampleBatch({**item, "row": np.array([*item["row"], self.items])})

    def state(self) -> dict[str, Any]:
        return {"items": self.items}

    def load_state(self, state: dict[str, Any]) -> None:
        self.items = state["items"]


def local_set() -> WorkerSet:
    return WorkerSet(StubConfig(), 0, factory=f"{__name__}:StubWorker")


def policy_workers(workers: WorkerSet) -> PolicyWorkers:
    return PolicyWorkers(workers, "default")


def weights(version: int) -> dict[str, Weights]:
    return {"default": Weights(version, np.zeros(3, np.float32))}


def rows_of_flow(flow: Flow[SampleBatch], number: int) -> list[list[int]]:
    return [batch["row"].tolist() for batch in flow.take(number)]


def test_creating_and_printing_a_worker_set_starts_no_worker(wording) -> None:
    StubWorker.made = 0
    workers = local_set()
    flow = policy_workers(workers).rollouts(CountItems(), mode="async", in_flight=3)
    assert plan_text(flow.describe()) == wording("parallel_rollouts", "in_flight", "CountItems")
    assert StubWorker.made == 0
    assert workers.started is workers.started
    assert StubWorker.made == 1


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_local_worker_samples_on_demand_with_the_current_weights(mode: Any) -> None:
    workers = local_set()
    flow = policy_workers(workers).rollouts(mode=mode)
    workers.started.order(Orders(weights(4)))
    assert rows_of_flow(flow, 1) == [[0, 4]]
    workers.started.order(Orders(weights(5)))
    assert rows_of_flow(flow, 2) == [[1, 5], [2, 5]]
    assert workers.counts.env_steps == 30
    assert workers.counts.sample_s == 1.5
    assert workers.worker_restarts == 0
    assert workers.indices == (0,)


def test_a_second_dataflow_over_a_started_local_worker_continues_its_fragments() -> None:
    workers = local_set()
    assert rows_of_flow(policy_workers(workers).rollouts(), 1) == [[0, -1]]
    assert rows_of_flow(policy_workers(workers).rollouts(), 1) == [[1, -1]]


def test_the_local_worker_is_closed_with_its_set_and_the_next_use_starts_a_new_one() -> None:
    StubWorker.made = StubWorker.closed = 0
    workers = local_set()
    before = workers.started
    workers.close()
    workers.close()
    assert (StubWorker.made, StubWorker.closed) == (1, 1)
    assert workers.started is not before
    assert (StubWorker.made, StubWorker.closed) == (2, 1)


def test_each_episode_and_filter_statistic_is_taken_only_once() -> None:
    workers = local_set()
    policy_workers(workers).rollouts().take(2)
    assert workers.counts.take_episodes() == [Episode(1.0, 3, {"energy": 0.5}), Episode(2.0, 3, {"energy": 0.5})]
    assert workers.counts.take_episodes() == []
    ((name, delta),) = workers.counts.take_filter_deltas("default").items()
    assert (name, delta.count, float(delta.mean), float(delta.squares)) == ("returns", 2.0, 1.5, 0.5)
    assert workers.counts.take_filter_deltas("default") == {}


def test_the_state_of_a_worker_set_restores_its_worker_and_counters() -> None:
    workers, again = local_set(), local_set()
    flow, restored = policy_workers(workers).rollouts(CountItems()), policy_workers(again).rollouts(CountItems())
    flow.take(3)
    assert again.load_state(workers.state()) == 2
    restored.load_state(flow.state())
    assert rows_of_flow(restored, 1) == rows_of_flow(flow, 1) == [[3, -1, 4]]
    assert again.counts.env_steps == workers.counts.env_steps == 40
    assert again.counts.take_episodes() == workers.counts.take_episodes()
    assert again.counts.take_filter_deltas("default")["returns"].mean == 2.5


def test_a_state_with_a_different_number_of_workers_is_refused_before_any_worker_starts(wording) -> None:
    StubWorker.made = 0
    state = {**local_set().state(), "workers": [{}, {}]}
    with wording.raised(CheckpointError):
        local_set().load_state(state)
    assert StubWorker.made == 1


def test_naming_an_operator_for_workers_that_have_already_started_is_refused(wording) -> None:
    workers = local_set()
    workers.started.request(0)
    with wording.raised(RuntimeError):
        policy_workers(workers).rollouts(CountItems())


def test_an_error_on_the_local_worker_names_the_operator_at_fault(wording) -> None:
    def broken(item: SampleBatch) -> SampleBatch:
        raise KeyError("advantages")

    with pytest.raises(KeyError) as caught:
        policy_workers(local_set()).rollouts(broken).take(1)
    assert caught.value.__notes__ == wording()


def test_a_local_set_imports_neither_ray_nor_torch() -> None:
    program = """
import sys
import rlrun.engine.flow.policy_workers, rlrun.engine.rollout.rollout_worker, rlrun.engine.rollout.worker_set
class Config: pass
print([name for name in ("ray", "torch") if name in sys.modules])
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
