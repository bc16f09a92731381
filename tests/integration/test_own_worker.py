"""A custom worker, which steps no vector env and delivers numbers instead of batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.policy_workers import PolicyWorkers
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.rollout import Rollout
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_set import WorkerSet

pytestmark = pytest.mark.usefixtures("running_ray")


@dataclass(frozen=True)
class PairsConfig:
    """Configuration of the workers."""

    pairs: int
    worker_index: int = 0
    first_fragment: int = 0


class PairsWorker:
    """Delivers its results for a few numbered pairs, like a worker of evolution strategies."""

    def __init__(self, config: PairsConfig) -> None:
        self.config = config
        self.fragment = config.first_fragment
        self.scale = 0.0

    def follow(self, orders: Orders) -> None:
        self.scale = float(orders.weights["default"].acting[0])

    def sample(self) -> Rollout:
        pairs = [self.fragment * self.config.pairs + pair for pair in range(self.config.pairs)]
        self.fragment += 1
        return Rollout(
            worker_index=self.config.worker_index,
            fragment=self.fragment - 1,
            batches={"default": {"pairs": pairs, "returns": [self.scale * pair for pair in pairs]}},
            env_steps=2 * self.config.pairs,
        )

    def state(self) -> int:
        return self.fragment

    def place(self) -> int:
        return self.fragment

    def load_state(self, state: int) -> int:
        self.fragment = state
        return 0

    def close(self) -> None:
        pass


MakeFlow = Callable[[int], tuple[WorkerSet, Flow[Any]]]


def doubled(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "returns": [2 * number for number in item["returns"]]}


@pytest.fixture
def make_flow() -> Iterator[MakeFlow]:
    sets = []

    def make(num_workers: int) -> tuple[WorkerSet, Flow[Any]]:
        workers = WorkerSet(PairsConfig(2), num_workers, factory=f"{__name__}:PairsWorker")
        sets.append(workers)
        flow = PolicyWorkers(workers, "default").rollouts(doubled)
        workers.started.order(Orders({"default": Weights(0, np.full(3, 0.5, np.float32))}))
        return workers, flow

    yield make
    for workers in sets:
        workers.close()


anywhere = pytest.mark.parametrize("num_workers", [0, 2], ids=["local", "remote"])


def numbers(fragment: int) -> dict[str, Any]:
    pairs = [2 * fragment, 2 * fragment + 1]
    return {"pairs": pairs, "returns": [float(pair) for pair in pairs]}


@anywhere
def test_items_from_a_custom_worker_pass_through_operators_unchanged(make_flow: MakeFlow, num_workers: int) -> None:
    workers, flow = make_flow(num_workers)
    in_a_round = max(num_workers, 1)
    assert flow.take(2 * in_a_round) == [numbers(0)] * in_a_round + [numbers(1)] * in_a_round
    assert workers.counts.env_steps == 2 * in_a_round * 4
    assert workers.counts.take_episodes() == []
    assert workers.counts.take_filter_deltas("default") == {}


@anywhere
def test_a_custom_worker_continues_from_its_json_state(make_flow: MakeFlow, num_workers: int) -> None:
    workers, flow = make_flow(num_workers)
    again, restored = make_flow(num_workers)
    in_a_round = max(num_workers, 1)
    flow.take(2 * in_a_round + 1)
    state, flow_state = json.loads(json.dumps([workers.state(), flow.state()]))
    assert again.load_state(state) == 0
    restored.load_state(flow_state)
    rest_of_the_round = in_a_round - 1
    expected = [numbers(2)] * rest_of_the_round + [numbers(3)] * in_a_round
    assert restored.take(len(expected)) == flow.take(len(expected)) == expected
    assert again.counts.env_steps == workers.counts.env_steps == 4 * in_a_round * 4
