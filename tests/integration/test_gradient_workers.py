"""Workers in real actors that compute gradients, or learn themselves."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stub_workers import actor_pids

from rlrun import A3C, DDPPO, PPO, Training
from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.messages.errors import TrainingFailed
from rlrun.engine.rollout.rollout import DEFAULT_POLICY
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.training.save import saved_state
from tests.results import numbers
from tests.rounding import rounding_error

pytestmark = pytest.mark.usefixtures("running_ray")

SHARED = {
    "num_workers": 2,
    "num_cpus_per_worker": 0.5,
    "num_envs_per_worker": 4,
    "train_batch_size": 64,
    "model": {"hiddens": [8]},
    "normalize_observations": True,
    "compile": False,
}
ASYNCHRONOUS = {**SHARED, "min_env_steps_per_iteration": 400}
TOGETHER = {
    **SHARED,
    "min_env_steps_per_iteration": 0,
    "minibatch_size": 32,
    "num_epochs": 2,
    "lr": [[0, 1e-2], [2000, 1e-3]],
}


def replicas(training: Training) -> list[dict[str, Any]]:
    """Runs a round and returns what each worker delivered."""
    delivered: list[dict[str, Any]] = []
    receive = training.running.workers.counts.count

    def count(rollout: Any) -> None:
        delivered.append(rollout.batches[DEFAULT_POLICY])
        receive(rollout)

    training.running.workers.counts.count = count  # type: ignore[method-assign]
    training.step()
    training.running.workers.counts.count = receive  # type: ignore[method-assign]
    return delivered


def test_a3c_applies_gradients_from_all_workers_and_replaces_a_killed_worker() -> None:
    others = set(actor_pids())
    with Training("CartPole-v1", A3C(**ASYNCHRONOUS), seed=1) as training:
        deadline = time.monotonic() + 600
        result = training.step()
        while not (result["gradient_share/worker_1"] > 0 and result["gradient_share/worker_2"] > 0):
            assert time.monotonic() < deadline  # one worker may start seconds after the other
            result = training.step()
        assert result["gradient_share/worker_1"] + result["gradient_share/worker_2"] == pytest.approx(1.0)
        assert 0 < result["policy_lag_mean"] <= result["policy_lag_max"]
        os.kill(max(set(actor_pids()) - others), signal.SIGKILL)
        steps = result["sgd_steps"]
        result = training.step()
        while result["worker_restarts"] == 0 or 0.0 in [result[f"gradient_share/worker_{i}"] for i in (1, 2)]:
            assert time.monotonic() < deadline
            result = training.step()
        assert result["worker_restarts"] == 1
        assert result["sgd_steps"] > steps
        assert np.isfinite(result["learner/grad_norm"])
        # The other worker's fragment may already be counted while its gradient waits for the next iteration.
        assert training.running.trainee.filters.moments["observations/"].count / 32 - result["sgd_steps"] in (0, 1)


def test_ddppo_replicas_stay_equal_match_ppo_resume_exactly_and_fail_when_a_worker_dies(
    tmp_path: Path,
) -> None:
    config = {**TOGETHER, "minibatch_size": 64}
    with Training("CartPole-v1", DDPPO(**config), seed=4) as training:
        first = [training.step() for _ in range(2)]
        training.save(tmp_path / "checkpoint")
        first.append(training.step())
        flat = training.running.trainee.learner.flat()
        own, other = replicas(training)
        assert own["digest"] == other["digest"]
        np.testing.assert_array_equal(own["flat"], training.running.trainee.learner.flat())
        assert own["steps"] == other["steps"] == training.running.workers.counts.env_steps - first[-1]["env_steps"]

        saved_state.adopt(training.running, read_checkpoint(tmp_path / "checkpoint"))
        before = training.running.trainee.learner.optimizer_state()
        training.step()
        after = training.running.trainee.learner.optimizer_state()
        assert after["loss/steps"] == before["loss/steps"] + 2
        assert (after["loss/second"] >= before["loss/second"] * 0.999**2 - 1e-12).all()

        weights = training.running.trainee.weights(optimizer=True)
        drifted = replace(weights, learning=replace(weights.learning, flat=weights.learning.flat + 1))
        training.running.workers.started.order(Orders({DEFAULT_POLICY: drifted}), only=2)
        with pytest.raises(TrainingFailed, match="the parameters of rollout worker 2 differ from the other workers'"):
            training.step()
    assert [result["policy_lag_max"] for result in first] == [0, 0, 0]
    # With one minibatch per batch, the order of the steps within a batch does not matter.
    with Training("CartPole-v1", PPO(**config), seed=4) as ppo:
        expected = [ppo.step() for _ in range(3)]
        np.testing.assert_allclose(flat, ppo.running.trainee.learner.flat(), atol=rounding_error(64))
    for found, wanted in zip(first, expected, strict=True):
        assert found["learner/grad_norm"] == pytest.approx(wanted["learner/grad_norm"], rel=rounding_error(64))
        for name in ("env_steps", "sgd_steps", "episodes", "episode_return_mean"):
            assert found[name] == wanted[name]

    others = set(actor_pids())
    with Training.restore(tmp_path / "checkpoint") as restored:
        assert numbers(restored.step()) == numbers(first[-1])
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), flat)
        os.kill(max(set(actor_pids()) - others), signal.SIGKILL)
        with pytest.raises(TrainingFailed, match=r"worker \d died .*max_worker_restarts is 0|lost another one"):
            restored.step()


@pytest.mark.chaos
def test_a_hanging_ddppo_worker_ends_the_trial() -> None:
    world = {"id": "rlrun.toys:Hanging", "kwargs": {"hang_at": 12, "seconds": 600.0, "hang_worker": 2}}
    with (
        Training(
            world, DDPPO(**TOGETHER | {"min_env_steps_per_iteration": 200}, worker_timeout_s=4.0), seed=4
        ) as training,
        pytest.raises(TrainingFailed, match=r"within 4 s \(worker_timeout_s\), and .* max_worker_restarts is 0"),
    ):
        training.step()
