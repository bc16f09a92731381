"""Curricula: how an iteration's metrics change the next episodes, even in a run that is resumed bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rlrun
from rlrun.engine.messages.errors import TrainingFailed, UsageError
from rlrun.engine.training.assemble.curriculum import Curriculum
from tests.results import numbers

HERE = "tests.unit.engine.training.test_curriculum"


def goes_up(metrics: dict[str, Any]) -> dict[str, Any]:
    """Grows by 1 every 200 env steps."""
    return {"goal": float(metrics["env_steps"] // 200)}


def returns_nothing(metrics: dict[str, Any]) -> None:
    return None


ENV = {"id": "tests.unit.engine.envs.test_tasks:Goal", "curriculum": f"{HERE}:goes_up"}
WORLD = {"world": "tests.unit.engine.worlds.test_task_world:Goals", "curriculum": f"{HERE}:goes_up"}
CONFIG = {
    "train_batch_size": 100,
    "num_envs_per_worker": 2,
    "num_epochs": 1,
    "min_env_steps_per_iteration": 100,
    "rollout_fragment_length": 7,
    "model": {"hiddens": [4]},
}


# The env pays the goal at each of an episode's 3 steps. The world pays it to two agents, one of which leaves after 2.
@pytest.mark.parametrize(("env", "payments"), [(ENV, 3), (WORLD, 5)])
def test_episodes_follow_the_curriculum_and_a_restored_training_continues_exactly(
    env: dict[str, str], payments: int, tmp_path: Path
) -> None:
    with rlrun.Training(env, rlrun.PPO(**CONFIG), seed=1) as training:
        for _ in range(5):
            training.step()
        saved = training.save(tmp_path / "saved")
        expected = [numbers(training.step()) for _ in range(6)]
    # The goal grows by 1 every 200 env steps.
    assert expected[-1]["episode_return_max"] == payments * (expected[-2]["env_steps"] // 200)
    with rlrun.Training.restore(saved, trust=True) as training:
        assert [numbers(training.step()) for _ in range(6)] == expected


def test_unsupported_and_invalid_curricula_are_refused(wording) -> None:
    game = {"world": "rlrun.toys:TicTacToe", "curriculum": f"{HERE}:goes_up"}
    with (
        wording.raised(UsageError),
        rlrun.Training(game, rlrun.AlphaZero()) as training,
    ):
        training.step()
    with (
        wording.raised(UsageError),
        rlrun.Training(ENV, rlrun.ES()) as training,
    ):
        training.step()
    with wording.raised(UsageError, "goes_up"):
        Curriculum(f"{HERE}:goes_upp")
    with wording.raised(TrainingFailed):
        Curriculum(f"{HERE}:returns_nothing").advance({})
