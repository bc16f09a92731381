"""DreamerV3 with remote workers: it learns from all of them, and resumes bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun import Dreamer, Training

pytestmark = pytest.mark.usefixtures("running_ray")

SETTINGS: dict[str, Any] = {
    "model": {"size": "nano"},
    "num_bins": 31,
    "minibatch_size": 2,
    "horizon": 3,
    "num_workers": 2,
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 8,
    "learning_starts": 60,
    "training_intensity": 0.05,
    "min_env_steps_per_iteration": 100,
    "replay": {"length": 6, "stride": 2, "capacity": 4000},
}


def test_a_resumed_run_with_two_workers_continues_bit_for_bit(tmp_path: Path) -> None:
    with Training("CartPole-v1", Dreamer(**SETTINGS), seed=3) as one:
        one.step()
        one.step()
        saved = one.save(tmp_path / "checkpoint")
        one.step()
        weights = one.running.trainee.learner.flat()
        assert one.running.trainee.learner.sgd_steps > 5
    with Training.restore(saved) as other:
        other.step()
        np.testing.assert_array_equal(other.running.trainee.learner.flat(), weights)
