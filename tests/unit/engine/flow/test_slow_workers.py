"""Synchronous rounds that leave out the fragments of slow workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlrun.algorithms.ddppo.ddppo import DDPPO
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.flow.nodes import Delivered, Pending
from rlrun.engine.flow.sources.rollouts import SyncRollouts
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.counts import RolloutCounts
from rlrun.engine.rollout.rollout import DEFAULT_POLICY, Rollout
from rlrun.engine.rollout.worker_set import WorkerSet
from rlrun.engine.training.assemble.description import Description
from rlrun.engine.training.assemble.policies import Policies


class InOrder:
    """Three workers whose fragments arrive in a given order of (worker, fragment)."""

    num_workers = 3
    indices = deliverers = (1, 2, 3)
    served = None

    def __init__(self, arrivals: list[list[tuple[int, int]]], fragments_per_round: int) -> None:
        self.fragments_per_round = fragments_per_round
        self.counts = RolloutCounts()
        self.started = self
        self.requests: list[int] = []
        self._arrivals = iter(arrivals)

    def request(self, deliverer: int) -> None:
        self.requests.append(deliverer)

    def arrived(self) -> list[Rollout]:
        return [rollout(worker, fragment) for worker, fragment in next(self._arrivals)]

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        return (), 0.0


def rollout(worker: int, fragment: int) -> Rollout:
    batch = SampleBatch(rewards=np.full((1, 1), 10.0 * worker + fragment), valid=np.ones((1, 1), np.bool_))
    return Rollout(worker, fragment, {DEFAULT_POLICY: batch}, env_steps=1, weights_versions={DEFAULT_POLICY: 0})


def rounds(source: SyncRollouts, items: int) -> list[float]:
    """Rewards of the next items, by worker and fragment."""
    found: list[float] = []
    while len(found) < items:
        polled = source.next_item()
        if isinstance(polled, Delivered):
            found.append(float(polled.value["rewards"][0, 0]))
        else:
            assert isinstance(polled, Pending)
    return found


def test_a_round_leaves_out_slow_workers_and_their_late_fragments_are_dropped() -> None:
    workers = InOrder([[(3, 0)], [(1, 0)], [(2, 0)], [(2, 1)], [(1, 1), (3, 1)]], fragments_per_round=2)
    source = SyncRollouts(workers, DEFAULT_POLICY, ())
    assert rounds(source, 2) == [10, 30]
    assert workers.requests == [1, 2, 3]
    assert workers.counts.fragments_left_out == 0
    assert rounds(source, 3) == [11, 21, 31]  # fragment 0 of worker 2 was late
    assert workers.requests[3:] == [1, 3, 2]
    assert workers.counts.fragments_left_out == 1
    assert workers.counts.env_steps == 5


def test_by_default_a_round_waits_for_all_workers_even_after_a_restore() -> None:
    workers = InOrder([[(3, 0), (1, 0)], [(2, 0)], [(1, 1), (2, 1), (3, 1)]], fragments_per_round=3)
    source = SyncRollouts(workers, DEFAULT_POLICY, ())
    assert rounds(source, 3) == [10, 20, 30]
    source.load_state(source.state())
    assert rounds(source, 3) == [11, 21, 31]
    assert workers.requests == [1, 2, 3] * 2


@pytest.mark.parametrize(
    ("num_workers", "share", "needed"), [(5, 0.6, 3), (5, 0.61, 4), (3, 0.01, 1), (4, 1.0, 4), (0, 0.5, 1)]
)
def test_the_minimum_share_of_fragments_is_rounded_up_to_whole_workers(
    num_workers: int, share: float, needed: int
) -> None:
    assert WorkerSet(None, num_workers, min_share_of_fragments=share).fragments_per_round == needed


def test_fragments_that_a_round_left_out_count_as_lost() -> None:
    workers = WorkerSet(None, 2, min_share_of_fragments=0.5)
    assert workers.lost_nothing
    workers.counts.fragments_left_out = 1
    assert not workers.lost_nothing


def test_min_share_of_fragments_is_refused_for_workers_that_learn(wording) -> None:
    algorithm = DDPPO(num_workers=2, min_share_of_fragments=0.5)
    with wording.raised(UsageError, "min_share_of_fragments"):
        Description(EnvConfig(id="CartPole-v1"), Policies.alone(algorithm)).plan()
