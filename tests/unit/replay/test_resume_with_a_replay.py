"""A run that learns from a replay goes on bit for bit after a kill, or fills its replay anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlrun.algorithm import Algorithm
from rlrun.python_api import DQN
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


def rows(algorithm: Algorithm[Any], iterations: int) -> list[dict[str, Any]]:
    results = (algorithm.train() for _ in range(iterations))
    return all_numbers(results)


def test_a_resumed_run_gives_the_same_results(tmp_path: Path) -> None:
    replay = {"capacity": 500, "prioritized": True, "priority_beta": [[0, 0.4], [2000, 1.0]]}
    with DQN("CartPole-v1", {**CONFIG, "replay": replay}, seed=1) as algorithm:
        rows(algorithm, 3)
        algorithm.save(tmp_path / "checkpoint")
        expected = rows(algorithm, 3)
    with DQN.restore(tmp_path / "checkpoint") as restored:
        assert rows(restored, 3) == expected


def test_a_resumed_run_without_its_replay_fills_it_before_it_learns(tmp_path: Path) -> None:
    replay = {"capacity": 500, "save_in_checkpoints": False}
    with DQN("CartPole-v1", {**CONFIG, "replay": replay, "min_env_steps_per_iteration": 100}, seed=1) as algorithm:
        (*_, last) = rows(algorithm, 4)
        algorithm.save(tmp_path / "checkpoint")
    with DQN.restore(tmp_path / "checkpoint") as restored:
        results = rows(restored, 3)
    assert last["sgd_steps"] > 0
    learned = [result["sgd_steps"] - last["sgd_steps"] for result in results]
    stored = [result["env_steps"] - last["env_steps"] for result in results]
    assert learned == [max(int(0.25 * (steps - 150)), 0) for steps in stored]
    assert learned[0] == 0
    assert learned[2] > 0


def test_results_tell_how_much_memory_the_replay_takes() -> None:
    config = {**CONFIG, "n_step": 1, "min_env_steps_per_iteration": 10}
    with DQN("CartPole-v1", {**config, "replay": {"capacity": 1_000_000}}) as algorithm:
        # Observation, action and reward, whether it ended, was cut off, is a step and can be drawn.
        assert rows(algorithm, 1)[0]["replay/gigabytes"] == (4 * 4 + 8 + 4 + 4) / 1000
