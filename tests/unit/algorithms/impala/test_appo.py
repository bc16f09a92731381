"""APPO's updates on whole fragments with a target policy."""

from __future__ import annotations

import numpy as np
import pytest

import rlrun
from tests.rounding import rounding_error

SMALL = {
    "num_envs_per_worker": 4,
    "rollout_fragment_length": 8,
    "train_batch_size": 64,
    "min_env_steps_per_iteration": 100,
    "num_epochs": 2,
    "minibatch_size": 32,
    "target_update_interval": 2,
    "kl_coeff": 0.1,
    "model": {"hiddens": [8]},
    "normalize_observations": True,
    "lr": [[0, 1e-3], [2000, 0.0]],
}


@pytest.mark.usefixtures("traced_updates")
def test_compiled_updates_on_whole_fragments_match_eager_ones() -> None:
    flats = []
    for is_compiled in (False, True):
        with rlrun.Training("CartPole-v1", rlrun.APPO(**SMALL, compile=is_compiled)) as training:
            for _ in range(2):
                training.step()
            assert training.running.trainee.learner.update_executor == ("compiled" if is_compiled else "eager")
            flats.append(training.running.trainee.learner.flat())
    np.testing.assert_allclose(flats[1], flats[0], atol=rounding_error(64))
