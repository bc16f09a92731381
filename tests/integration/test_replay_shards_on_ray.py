"""Replays in actors of their own: lost, hung, saved, and filled without passing through the driver."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stub_shards import HangsOnce
from stub_workers import actor_pids

from rlrun import Apex, Training
from rlrun.engine.actors.batch_ref import BatchRef
from rlrun.engine.flow import policy_workers
from rlrun.engine.flow.nodes import OperatorNode
from rlrun.engine.flow.operators.batch_refs import LeaveOnWorker
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.replay import replay_shards
from rlrun.engine.replay.replay_shards import ReplayShards
from rlrun.engine.rollout.rollout import DEFAULT_POLICY

pytestmark = pytest.mark.usefixtures("running_ray")

CONFIG: dict[str, Any] = {
    "num_workers": 2,
    "num_cpus_per_worker": 0.5,
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 10,
    "model": {"hiddens": [8]},
    "minibatch_size": 16,
    "learning_starts": 200,
    "min_env_steps_per_iteration": 300,
    "target_update_interval": 20,
    "replay": {"capacity": 4000, "sampling": "prioritized"},
    "compile": False,
    "asynchrony": {"minibatches_per_fragment": 2, "weights_age": 5},
}

LEAVE_ALL = partial(LeaveOnWorker, carried_up_to_bytes=0)
"""Creates the operator that leaves fragments of every size on their workers."""


def shards_of(training: Training) -> ReplayShards:
    operators = [node.operator for node in training.running.flow._places() if isinstance(node, OperatorNode)]
    (store,) = [operator for operator in operators if isinstance(operator, StoreToReplay)]
    assert isinstance(store.replay, ReplayShards)
    return store.replay


def trained_until(training: Training, is_over: Any) -> dict[str, Any]:
    deadline = time.monotonic() + 600
    result = training.step()
    while not is_over(result):
        assert time.monotonic() < deadline
        result = training.step()
    return result


@pytest.mark.chaos
def test_a_lost_replay_shard_is_replaced_and_a_resumed_run_keeps_the_shards_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.setattr(policy_workers, "LEAVE_ON_WORKER", f"{__name__}:LEAVE_ALL")
    others = set(actor_pids())
    with Training("CartPole-v1", Apex(**CONFIG), seed=1) as training:
        delivered: list[Any] = []
        training.start()
        count = training.running.workers.counts.count

        def counted(rollout: Any) -> None:
            delivered.append(rollout.batches[DEFAULT_POLICY])
            count(rollout)

        training.running.workers.counts.count = counted  # type: ignore[method-assign]
        result = trained_until(training, lambda result: result["sgd_steps"] > 60)
        # Each fragment of 20 steps is followed by at least 2 minibatches. Each worker may have had up to 2 fragments in
        # flight.
        assert result["sgd_steps"] >= 0.1 * (result["env_steps"] - 200) - 20

        def makes_room(result: dict[str, Any]) -> bool:
            nice = sorted(os.getpriority(os.PRIO_PROCESS, pid) for pid in set(actor_pids()) - others)
            return nice == [nice[0], *[min(nice[0] + 4, 19)] * 2]

        trained_until(training, makes_room)  # each worker lowers its priority with its first fragment
        assert delivered
        assert all(isinstance(item, BatchRef) for item in delivered)
        shards = shards_of(training)
        assert shards._actors is not None
        ray.kill(shards._actors.shells()[0])
        learned = result["sgd_steps"]
        result = trained_until(
            training, lambda result: result["replay_shard_restarts"] and result["sgd_steps"] > learned + 20
        )
        assert result["replay_shard_restarts"] == 1
        assert result["worker_restarts"] == 0
        assert result["replay/gigabytes"] > 4000 * 16 / 1e9
        assert np.isfinite(result["learner/loss"])
        training.save(tmp_path / "checkpoint")
        steps, learned, stored = (
            training.running.workers.counts.env_steps,
            training.running.trainee.learner.sgd_steps,
            shards.stored_steps,
        )
    with Training.restore(tmp_path / "checkpoint") as restored:
        restored.start()
        shards = shards_of(restored)
        assert shards.stored_steps == stored
        result = restored.step()
        assert result["env_steps"] > steps
        assert result["sgd_steps"] > learned  # the saved shards held enough to learn from at once
        assert result["replay_shard_restarts"] == 1


@pytest.mark.chaos
def test_a_replay_shard_that_stops_answering_is_replaced_after_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_shards, "ReplayShard", partial(HangsOnce, tmp_path / "note"))
    with Training("CartPole-v1", Apex(**CONFIG, worker_timeout_s=8.0), seed=1) as training:
        result = trained_until(training, lambda result: result["replay_shard_restarts"] and result["sgd_steps"] > 60)
    assert result["replay_shard_restarts"] == 1


def test_replay_buffers_in_the_driver_also_serve_remote_workers() -> None:
    with Training("CartPole-v1", Apex(**{**CONFIG, "asynchrony": {"replay_shards": 0}}), seed=1) as training:
        result = trained_until(training, lambda result: result["sgd_steps"] > 20)
    assert "replay_shard_restarts" not in result
