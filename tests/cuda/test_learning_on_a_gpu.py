"""Learning on a GPU: staged copies, CUDA graphs, bfloat16, learners that share it, and exact resumes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rlrun
from rlrun import Training
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.learner.staging import Staging
from tests.results import all_numbers, numbers

pytestmark = pytest.mark.usefixtures("own_folder")

SMALL = {"model": {"hiddens": [32, 32]}, "lr": 1e-3, "num_envs_per_worker": 4, "min_env_steps_per_iteration": 0}
EPOCHS = {**SMALL, "train_batch_size": 256, "minibatch_size": 64, "num_epochs": 2, "max_grad_norm": 0.5}
OFF_POLICY = {**SMALL, "learning_starts": 100, "minibatch_size": 32, "min_env_steps_per_iteration": 200}


def seeded_training(
    algorithm: str, env: str = "CartPole-v1", announce: Callable[[str], None] = lambda message: None, **config: Any
) -> Training:
    classes: dict[str, type[Algorithm[Any]]] = {
        "ppo": rlrun.PPO,
        "impala": rlrun.Impala,
        "dqn": rlrun.DQN,
        "sac": rlrun.SAC,
    }
    return Training(env, classes[algorithm](**copy.deepcopy(config)), seed=3, announce=announce)


def learner_metrics(row: dict[str, Any]) -> dict[str, float]:
    return {key: value for key, value in row.items() if key.startswith("learner/") and isinstance(value, float)}


def test_staged_batches_arrive_unchanged_with_several_copies_in_flight() -> None:
    staging = Staging(torch.device("cuda"))
    rng = np.random.default_rng(0)
    batches = [
        SampleBatch(
            obs={"frame": rng.integers(0, 255, (512, 1, 84, 84), np.uint8), "speed": rng.normal(size=(512, 1, 3))},
            valid=np.ones((512, 1), bool),
        )
        for _ in range(8)
    ]
    for batch in batches:
        batch["obs"]["frame"].flags.writeable = False
    weights = torch.ones(4096, 4096, device="cuda")
    staged = []
    for batch in batches:
        weights @ weights  # keeps the device busy while the next batch is copied
        staged.append(staging.batch(batch, spare=3))
    for batch, found in zip(batches, staged, strict=True):
        for name in ("frame", "speed"):
            np.testing.assert_array_equal(found["obs"][name][:-1].cpu().numpy(), batch["obs"][name])
            assert not found["obs"][name][-1].any()
        assert found["valid"].device.type == "cuda"


def test_the_learners_parameters_are_on_the_gpu() -> None:
    with seeded_training("ppo", **EPOCHS, num_gpus=1, compile=False) as training:
        training.step()
        learner = training.running.trainees[0].learner
        assert learner.device.type == "cuda"
        assert all(each.device.type == "cuda" for each in learner.policy.module.parameters())


def looks_at_numbers(training: Training) -> None:
    """Makes the loss read a tensor's value, which a graph cannot capture."""
    learner = training.running.trainees[0].learner
    (objective,) = learner.objectives
    loss = objective.loss

    def looking(outputs: Any, batch: Any, scheduled: Any) -> Any:
        assert batch["obs"].abs().max().item() < 1e6
        return loss(outputs, batch, scheduled)

    object.__setattr__(objective, "loss", looking)


def test_a_loss_that_reads_tensor_values_falls_back_to_eager_execution() -> None:
    results, told = [], []
    for compiles in (False, "auto"):
        with seeded_training("ppo", announce=told.append, **EPOCHS, num_gpus=1, compile=compiles) as training:
            looks_at_numbers(training)
            results.append([numbers(training.step()) for _ in range(2)])
    assert results[0] == results[1]
    assert sum("CUDA graph" in str(message) for message in told) == 1


def test_bfloat16_agrees_with_float32_within_10_percent() -> None:
    rows = []
    for precision in ("float32", "bfloat16"):
        with seeded_training("ppo", **EPOCHS, num_gpus=1, compile=False, precision=precision) as training:
            rows.append(learner_metrics(training.step()))
    for name in ("learner/value_loss", "learner/entropy", "learner/grad_norm"):
        assert rows[1][name] == pytest.approx(rows[0][name], rel=0.1), name


@pytest.mark.parametrize("num_learners", [1, 2])
def test_learners_in_separate_processes_match_a_learner_in_the_trials_process(num_learners: int) -> None:
    """One learner has the whole GPU and NCCL; two share it and use gloo."""
    rows = []
    for place in ({}, {"num_learners": num_learners}):
        with seeded_training("ppo", **EPOCHS, **place, num_gpus=1, compile=False) as training:
            rows.append(learner_metrics(training.step()))
    for name, value in rows[0].items():
        assert rows[1][name] == pytest.approx(value, rel=1e-3, abs=1e-4), name


@pytest.mark.parametrize("compiles", [False, "auto"])
@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_a_resumed_training_continues_with_the_same_results(
    algorithm: str, compiles: bool | str, tmp_path: Path
) -> None:
    config = {"ppo": EPOCHS, "dqn": OFF_POLICY}[algorithm]
    with seeded_training(algorithm, **config, num_gpus=1, compile=compiles) as training:
        training.step()
        saved = training.save(tmp_path / "saved")
        expected = [training.step() for _ in range(2)]
    with Training.restore(saved) as training:
        assert all_numbers(training.step() for _ in range(2)) == all_numbers(expected)


def test_a_policy_trained_on_the_gpu_can_act_on_the_cpu(tmp_path: Path) -> None:
    with seeded_training("ppo", **EPOCHS, num_gpus=1, compile=False) as training:
        training.step()
        saved, expected = training.save(tmp_path / "saved"), training.evaluate(5, seed=1).returns
    with Training.restore(saved, for_training=False) as training:
        assert training.running.trainees[0].learner.device.type == "cpu"
        assert training.evaluate(5, seed=1).returns == expected


def test_an_asynchronous_learner_learns_on_the_gpu_from_ray_workers() -> None:
    small = {key: value for key, value in SMALL.items() if key != "min_env_steps_per_iteration"}
    config = {**small, "num_workers": 2, "train_batch_size": 256, "rollout_fragment_length": 32}
    with seeded_training("impala", **config, num_gpus=1, min_env_steps_per_iteration=2000) as training:
        rows = [learner_metrics(training.step()) for _ in range(2)]
    assert all(np.isfinite(row["learner/value_loss"]) for row in rows)


def test_gpu_memory_use_does_not_grow_during_training() -> None:
    with seeded_training("ppo", **EPOCHS, num_gpus=1, compile="auto") as training:
        for _ in range(5):
            training.step()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        for _ in range(20):
            training.step()
        torch.cuda.synchronize()
        assert torch.cuda.memory_allocated() <= before + 1_000_000
