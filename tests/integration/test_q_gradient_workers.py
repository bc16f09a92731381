"""Gorila and asynchronous Q-learning with workers in real actors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun import AsyncDQN, Gorila, Training
from rlrun.engine.rollout.rollout import DEFAULT_POLICY

pytestmark = pytest.mark.usefixtures("running_ray")

# Episodes never end, so no row of a fragment holds a final observation, and all 4 are env steps.
WORLD = {"id": "rlrun.toys:ConstantReward", "kwargs": {"episode_len": 100_000}}
FRAGMENT_STEPS = 4
SHARED: dict[str, Any] = {
    "num_workers": 2,
    "num_cpus_per_worker": 0.5,
    "num_envs_per_worker": 1,
    "rollout_fragment_length": FRAGMENT_STEPS,
    "model": {"hiddens": [8]},
    "target_update_interval": 7,
    "min_env_steps_per_iteration": 120,
    "compile": False,
}
FRAGMENTS_BEFORE_LEARNING = 5
GORILA = {
    **SHARED,
    "minibatch_size": 8,
    "learning_starts": 2 * FRAGMENTS_BEFORE_LEARNING * FRAGMENT_STEPS,
    "training_intensity": 1 / FRAGMENT_STEPS,
    "replay": {"capacity": 2000},
}


def delivered_by(training: Training) -> list[tuple[int, int, int]]:
    """Returns a list that from now on gets (worker, gradients, version of its weights) for each fragment."""
    delivered: list[tuple[int, int, int]] = []
    training.start()
    count = training.running.workers.counts.count

    def counted(rollout: Any) -> None:
        batch = rollout.batches[DEFAULT_POLICY]
        gradients = len(batch) if isinstance(batch, list) else 1
        delivered.append((rollout.worker_index, gradients, rollout.weights_versions["default"]))
        count(rollout)

    training.running.workers.counts.count = counted  # type: ignore[method-assign]
    return delivered


def trained(training: Training, delivered: list[tuple[int, int, int]]) -> dict[str, Any]:
    """Trains until both workers have delivered ten fragments."""
    result = training.step()
    while min(sum(worker == index for worker, _, _ in delivered) for index in (1, 2)) < 10:
        result = training.step()
    return result


def assert_each_gradient_is_answered(delivered: list[tuple[int, int, int]], version: int) -> None:
    """Checks that a worker acts with the weights that its own last gradient led to.

    Args:
        delivered: Fragments with at most one gradient each, in the order in which the gradients are applied.
        version: Version of the weights that all workers begin with.
    """
    current = {1: version, 2: version}
    for worker, gradients, acted in delivered:
        assert acted == current[worker]
        version += gradients
        if gradients:
            current[worker] = version


def test_async_dqn_applies_one_gradient_per_fragment_and_answers_each_with_new_weights() -> None:
    with Training(WORLD, AsyncDQN(**SHARED), seed=1) as training:
        delivered = delivered_by(training)
        result = trained(training, delivered)
        assert result["env_steps"] == FRAGMENT_STEPS * len(delivered)
        # One worker's fragment may already be counted while its gradient waits for the next iteration.
        assert len(delivered) - result["sgd_steps"] in (0, 1)
        assert_each_gradient_is_answered(delivered, 0)
        learner = training.running.trainee.learner
        is_copied = learner.weights_version % 7 == 0  # the number of updates depends on timing
        assert np.array_equal(learner.flat(), learner.target()) == is_copied


def test_gorila_workers_learn_from_their_own_replay_buffers_which_are_saved_in_checkpoints(tmp_path: Path) -> None:
    with Training(WORLD, Gorila(**GORILA), seed=1) as training:
        delivered = delivered_by(training)
        result = trained(training, delivered)
        assert result["env_steps"] == FRAGMENT_STEPS * len(delivered)
        for index in (1, 2):
            gradients = [number for worker, number, _ in delivered if worker == index]
            assert gradients[:FRAGMENTS_BEFORE_LEARNING] == [0] * FRAGMENTS_BEFORE_LEARNING
            assert set(gradients[FRAGMENTS_BEFORE_LEARNING:]) == {1}
        assert sum(number for _, number, _ in delivered) - result["sgd_steps"] in (0, 1)
        assert_each_gradient_is_answered(delivered, 0)
        training.save(tmp_path / "checkpoint")
        learner = training.running.trainee.learner
        flat, target, version = learner.flat(), learner.target(), learner.weights_version
    with Training.restore(tmp_path / "checkpoint") as restored:
        delivered = delivered_by(restored)
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), flat)
        np.testing.assert_array_equal(restored.running.trainee.learner.target(), target)
        again = trained(restored, delivered)
        assert again["env_steps"] - result["env_steps"] == FRAGMENT_STEPS * len(delivered)
        assert {number for _, number, _ in delivered} == {1}  # no worker refills its replay before it learns
        assert min(acted for _, _, acted in delivered) >= version
        assert again["sgd_steps"] - result["sgd_steps"] >= len(delivered) - 1
        assert np.isfinite(again["learner/loss"])
