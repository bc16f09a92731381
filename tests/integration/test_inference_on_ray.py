"""An inference server in an actor: the same numbers as with workers that act, kills, resumes, worlds and versions."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from stub_workers import actor_pids

from rlrun import DQN, PPO, Impala, Training
from rlrun.engine.algorithm_config import WorldSamplingSettings
from rlrun.engine.training.assemble.policies import Policies
from tests.results import all_numbers

pytestmark = pytest.mark.usefixtures("running_ray")

SERVED: dict[str, Any] = {"inference": {"at": "trial"}}
SMALL: dict[str, Any] = {
    "num_workers": 2,
    "num_envs_per_worker": 4,
    "train_batch_size": 64,
    "minibatch_size": 32,
    "num_epochs": 2,
    "min_env_steps_per_iteration": 0,
    "model": {"hiddens": [8], "core": "lstm", "core_width": 4},
    "seq_len": 4,
    "compile": False,
}
OF_PROCESSES = ("worker_restarts", "lost_steps")


def iterations(training: Training, number: int) -> list[dict[str, Any]]:
    """Returns the results of a few iterations, without timing and without counts of lost processes."""
    rows = all_numbers([training.step() for _ in range(number)])
    return [{name: value for name, value in row.items() if name not in OF_PROCESSES} for row in rows]


def test_a_run_whose_inference_server_is_killed_equals_a_run_without_a_server() -> None:
    settings = {**SMALL, "num_workers": 1}
    with Training("CartPole-v1", PPO(**settings), seed=4) as training:
        expected = iterations(training, 3)
    others = set(actor_pids())
    with Training("CartPole-v1", PPO(**settings, **SERVED), seed=4) as training:
        training.start()
        found = iterations(training, 1)
        server, _ = sorted(set(actor_pids()) - others)  # the server starts before the worker
        os.kill(server, signal.SIGKILL)
        found += iterations(training, 2)
        assert training.running.workers.lost_nothing
        assert training.running.workers.worker_restarts == 1
    for row, own in zip(expected, found, strict=True):
        assert row == pytest.approx(own, rel=1e-4, abs=1e-6, nan_ok=True)


@pytest.mark.chaos
def test_a_dead_workers_fragment_is_repeated_and_its_lost_steps_are_counted(tmp_path: Path) -> None:
    env = {"id": "strange_envs:DiesOnce", "kwargs": {"note": str(tmp_path / "died")}}
    runs, lost = [], []
    for _ in range(2):  # the worker dies only in the first run
        with Training(env, PPO(**SMALL, **SERVED, normalize_rewards=True), seed=2) as training:
            runs.append(iterations(training, 8))
            lost.append(training.running.workers.counts.lost_steps)
            assert training.running.workers.lost_nothing
    assert runs[0] == runs[1]
    assert lost[0] > 0 == lost[1]


@pytest.mark.chaos
def test_a_run_with_an_inference_server_resumes_bit_for_bit(tmp_path: Path) -> None:
    with Training("CartPole-v1", PPO(**SMALL, **SERVED), seed=4) as training:
        iterations(training, 2)
        training.save(tmp_path / "checkpoint")
        expected = iterations(training, 2)
    with Training.restore(tmp_path / "checkpoint") as restored:
        assert iterations(restored, 2) == expected


@pytest.mark.chaos
def test_an_inference_server_acts_for_all_policies_of_a_world() -> None:
    rows = {}
    for label, inference in {"worker": {}, "trial": SERVED}.items():
        own: dict[str, Any] = {"model": {"hiddens": [8]}, "compile": False}
        policies = Policies(
            {
                "a": PPO(**own, train_batch_size=64, minibatch_size=32, num_epochs=1),
                "b": DQN(**own, learning_starts=20, minibatch_size=16),
            },
            WorldSamplingSettings(num_workers=2, num_envs_per_worker=2, min_env_steps_per_iteration=100, **inference),
            mapping={"pole_0": "a", "*": "b"},
        )
        with Training({"world": "rlrun.toys:CartPoles"}, policies, seed=3) as training:
            rows[label] = iterations(training, 2)
    for row, own in zip(rows["worker"], rows["trial"], strict=True):
        assert row.keys() == own.keys()
        for name, value in own.items():
            assert row[name] == (value if value is None else pytest.approx(value, rel=1e-4, abs=1e-6)), name


@pytest.mark.chaos
def test_rows_of_an_asynchronous_run_hold_the_weights_version_that_chose_their_action() -> None:
    settings = {**SMALL, **SERVED, "rollout_fragment_length": 64, "min_env_steps_per_iteration": 2_000}
    for name in ("minibatch_size", "num_epochs", "seq_len"):
        del settings[name]
    columns: list[NDArray[np.int32]] = []
    with Training("CartPole-v1", Impala(**settings), seed=4) as training:
        counts = training.running.workers.counts
        counts.record = lambda rollout: columns.append(rollout.batches["default"]["weights_version"])
        results = [training.step() for _ in range(2)]
    assert all((np.diff(column, axis=0) >= 0).all() for column in columns)
    assert max(len(np.unique(column)) for column in columns) > 1  # new weights arrive within fragments
    assert all(row["policy_lag_max"] < 10 for row in results)
