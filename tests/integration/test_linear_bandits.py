"""Linear bandits on remote workers: one regression over the pulls of all workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlrun import LinUCB, Training
from rlrun.algorithms.bandits.regressions import RidgeRegressions
from tests.rounding import rounding_error

pytestmark = pytest.mark.usefixtures("running_ray")


def test_coefficients_equal_those_of_a_single_regression_over_all_workers_pulls() -> None:
    env = {"id": "rlrun.toys:LinearBandit", "kwargs": {"problem": 3}}
    seen: list[Any] = []
    with Training(env, LinUCB(num_workers=2, rollout_fragment_length=5), seed=3) as training:
        for _ in range(3):
            item = next(training.running.flow)
            steps, valid = item.steps(), item["valid"]
            seen += zip(steps["obs"][valid], steps["actions"][valid], steps["rewards"][valid], strict=True)
        found = training.running.trainee.learner.flat()[:50].reshape(5, 10)
    whole = RidgeRegressions(5, 10, ridge=1.0)
    for context, arm, reward in seen:
        whole.add(int(arm), context, float(reward))
    assert len(seen) == 30
    np.testing.assert_allclose(found, whole.coefficients(), atol=rounding_error(1))
