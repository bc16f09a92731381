"""The plain QMIX that rlrun's QMIX is compared with really learns."""

from __future__ import annotations

import pytest

from benchmarks.qmix.plain_qmix import DEFAULTS, QMIX, TwoStepGame


def test_the_plain_qmix_baseline_solves_the_two_step_game() -> None:
    small = {"batch": 32, "hiddens": [16], "mixer_hidden": 8, "learning_starts": 200, "lr": 1e-2, "target_interval": 20}
    learner = QMIX(TwoStepGame(), {**DEFAULTS, **small}, seed=0)
    while learner.env_steps < 1800:
        learner.step()
    assert learner.updates == 400
    assert learner.greedy_return() == pytest.approx(8.0)
