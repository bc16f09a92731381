"""Popgym's partially observed envs, where they are installed: `pip install rlrun[popgym]`."""

from __future__ import annotations

import numpy as np
import pytest

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.make import make_env

pytest.importorskip("popgym")


@pytest.mark.parametrize(
    "name", ["RepeatPreviousEasy", "CountRecallEasy", "PositionOnlyCartPoleEasy", "MineSweeperEasy"]
)
def test_the_seed_determines_a_popgym_episode(name: str) -> None:
    config = EnvConfig.parse(f"popgym:popgym-{name}-v0")
    shown = []
    for _ in range(2):
        env = make_env(config)
        env.action_space.seed(0)
        rows = [env.reset(seed=3)[0], *(env.step(env.action_space.sample())[0] for _ in range(3))]
        assert all(env.observation_space.contains(row) for row in rows)
        shown.append(np.array([np.ravel(row) for row in rows]))
    np.testing.assert_array_equal(*shown)
