"""R2D3 learns from demonstrations, and resumes where it stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rlrun import R2D2, R2D3, Training
from rlrun.engine.messages.errors import UsageError

SHOWN = str(Path(__file__).parents[4] / "configs/mountaincar/demonstrations.npz")
CONFIG: dict[str, Any] = {
    "model": {"core_width": 8, "hiddens": [8]},
    "replay": {"burn_in": 4, "length": 8, "stride": 4, "capacity": 2000},
    "minibatch_size": 4,
    "num_envs_per_worker": 2,
    "learning_starts": 100,
    "min_env_steps_per_iteration": 300,
    "normalize_observations": True,
    "compile": False,
}
NAMES = ("env_steps", "sgd_steps", "learner/loss", "learner/q_mean", "learner/grad_norm")


def rows_of(training: Training, iterations: int) -> list[list[Any]]:
    return [[result[name] for name in NAMES] for result in (training.step() for _ in range(iterations))]


def test_r2d3_with_demonstration_ratio_0_equals_r2d2_bit_for_bit() -> None:
    with (
        Training("MountainCar-v0", R2D2(**CONFIG), seed=2) as plain,
        Training("MountainCar-v0", R2D3(**CONFIG, demonstrations=SHOWN, demonstration_ratio=0.0), seed=2) as shown,
        Training("MountainCar-v0", R2D3(**CONFIG, demonstrations=SHOWN, demonstration_ratio=0.5), seed=2) as mixed,
    ):
        assert rows_of(plain, 2) == rows_of(shown, 2)
        np.testing.assert_array_equal(plain.running.trainee.learner.flat(), shown.running.trainee.learner.flat())
        mixed.step(), mixed.step()
        assert not np.array_equal(plain.running.trainee.learner.flat(), mixed.running.trainee.learner.flat())


def test_a_resumed_run_draws_the_same_demonstrations(tmp_path: Path) -> None:
    with Training("MountainCar-v0", R2D3(**CONFIG, demonstrations=SHOWN), seed=1) as one:
        rows_of(one, 2)
        checkpoint = one.save(tmp_path / "checkpoint")
        expected, weights = rows_of(one, 2), one.running.trainee.learner.flat()
    with Training.restore(checkpoint, trust=True) as other:
        assert rows_of(other, 2) == expected
        np.testing.assert_array_equal(other.running.trainee.learner.flat(), weights)


def test_a_checkpoint_can_be_evaluated_but_not_trained_without_its_demonstrations(tmp_path: Path, wording) -> None:
    config = {**CONFIG, "demonstrations": "elsewhere/shown.npz"}
    with Training("MountainCar-v0", R2D3(**config)) as one:
        checkpoint = one.save(tmp_path / "checkpoint")
    with Training.restore(checkpoint, trust=True) as other:
        assert other.evaluate(1).returns == [-200.0]
        with wording.raised(UsageError):
            other.step()
