"""Runs of four families are saved, restored and resumed, with any allowed version of rlrun's dependencies."""

from pathlib import Path
from typing import Any

import pytest

import rlrun
from tests.results import all_numbers

SMALL = {"min_env_steps_per_iteration": 0, "model": {"hiddens": [8]}, "num_envs_per_worker": 2}
REPLAY = {
    **SMALL,
    "min_env_steps_per_iteration": 32,
    "learning_starts": 16,
    "replay": {"capacity": 256},
    "minibatch_size": 16,
}

ALGORITHMS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("CartPole-v1", {**SMALL, "train_batch_size": 64, "minibatch_size": 32, "normalize_observations": True}),
    "dqn": ("CartPole-v1", REPLAY),
    "sac": ("Pendulum-v1", REPLAY),
    "r2d2": ("CartPole-v1", {**REPLAY, "replay": {"burn_in": 2, "length": 4, "capacity": 256}, "minibatch_size": 4}),
}


def spec(name: str, iterations: int) -> dict[str, Any]:
    env, config = ALGORITHMS[name]
    return {name: {"algorithm": name, "env": env, "stop": {"iteration": iterations}, "config": config}}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_resumed_run_matches_an_uninterrupted_one(name: str, tmp_path: Path) -> None:
    whole, runs = tmp_path / "whole", tmp_path / "runs"
    (expected,) = rlrun.run(spec(name, 4), runs_dir=whole, executor="local")
    rlrun.run(spec(name, 2), runs_dir=runs, executor="local")
    (resumed,) = rlrun.resume(runs / name, extend={"iteration": 4})
    assert [row["iteration"] for row in resumed.results()] == [1, 2, 3, 4]
    assert all_numbers(resumed.results()) == all_numbers(expected.results())
    assert resumed.results()[-1]["sgd_steps"] > 0
