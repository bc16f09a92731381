"""A run with a replay resumes bit for bit after a kill, or refills its replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlrun import DQN, Training
from tests.results import all_numbers

CONFIG = {
    "model": {"hiddens": [16]},
    "min_env_steps_per_iteration": 200,
    "learning_starts": 150,
    "num_envs_per_worker": 2,
    "n_step": 3,
    "minibatch_size": 16,
    "epsilon": [[0, 1.0], [1000, 0.1]],
}


def numbers_of_iterations(training: Training, iterations: int) -> list[dict[str, Any]]:
    results = (training.step() for _ in range(iterations))
    return all_numbers(results)


def test_a_resumed_run_gives_the_same_results_as_an_uninterrupted_one(tmp_path: Path) -> None:
    replay = {"capacity": 500, "sampling": "prioritized", "priority_beta": [[0, 0.4], [2000, 1.0]]}
    with Training("CartPole-v1", DQN(**CONFIG, replay=replay), seed=1) as training:
        numbers_of_iterations(training, 3)
        training.save(tmp_path / "checkpoint")
        expected = numbers_of_iterations(training, 3)
    with Training.restore(tmp_path / "checkpoint") as restored:
        assert numbers_of_iterations(restored, 3) == expected


def test_a_run_resumed_without_its_replay_buffer_refills_it_before_learning(tmp_path: Path) -> None:
    replay = {"capacity": 500, "save_in_checkpoints": False}
    with Training(
        "CartPole-v1", DQN(**{**CONFIG, "replay": replay, "min_env_steps_per_iteration": 100}), seed=1
    ) as training:
        (*_, last) = numbers_of_iterations(training, 4)
        training.save(tmp_path / "checkpoint")
    with Training.restore(tmp_path / "checkpoint") as restored:
        results = numbers_of_iterations(restored, 3)
    assert last["sgd_steps"] > 0
    learned = [result["sgd_steps"] - last["sgd_steps"] for result in results]
    stored = [result["env_steps"] - last["env_steps"] for result in results]
    assert learned == [max(int(0.25 * (steps - 150)), 0) for steps in stored]
    assert learned[0] == 0
    assert learned[2] > 0


def test_results_include_the_memory_that_the_replay_buffer_uses() -> None:
    config = {**CONFIG, "n_step": 1, "min_env_steps_per_iteration": 10}
    with Training("CartPole-v1", DQN(**{**config, "replay": {"capacity": 1_000_000}})) as training:
        # A row holds an observation, an action, a reward and four flags: terminated, truncated, valid and drawable.
        assert numbers_of_iterations(training, 1)[0]["replay/gigabytes"] == (4 * 4 + 8 + 4 + 4) / 1000
