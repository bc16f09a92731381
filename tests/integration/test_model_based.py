"""Algorithms with a learned model on remote workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlrun

pytestmark = pytest.mark.usefixtures("running_ray")

SHARED: dict[str, Any] = {
    "num_workers": 2,
    "compile": False,
    "model": {"hiddens": [8]},
    "min_env_steps_per_iteration": 40,
    "dynamics": {"num_members": 2, "num_elites": 2, "hiddens": [8], "max_epochs": 2, "fit_interval": 30},
}
KINDS: dict[str, tuple[type[rlrun.MBPO] | type[rlrun.MBMPO], dict[str, Any]]] = {
    "mbpo": (
        rlrun.MBPO,
        {"learning_starts": 20, "training_intensity": 0.5, "rollouts_per_env_step": 2, "rollout_fragment_length": 10},
    ),
    "mbmpo": (
        rlrun.MBMPO,
        {"rollout_fragment_length": 10, "meta_updates": 1, "imagined_episodes": 3, "imagined_length": 4},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_with_remote_workers_continues_bit_for_bit(kind: str, tmp_path: Path) -> None:
    family, settings = KINDS[kind]
    with rlrun.Training("CartPole-v1", family(**SHARED, **settings), seed=100) as one:
        one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        expected = one.step()
        weights = one.running.trainee.learner.flat()
    with rlrun.Training.restore(checkpoint) as other:
        result = other.step()
        assert result["episode_return_mean"] == expected["episode_return_mean"]
        assert result["model_steps"] == expected["model_steps"]
        np.testing.assert_array_equal(other.running.trainee.learner.flat(), weights)
