"""MiniGrid's grids of bytes, where it is installed: `pip install rlrun[minigrid]`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlrun.algorithms.ppo import PPOConfig
from rlrun.engine.envs.make import make_env
from rlrun.experiments.spec.load import load_experiments

pytest.importorskip("minigrid")

CONFIGS = Path(__file__).parents[4] / "configs" / "minigrid"


@pytest.mark.parametrize("spec", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_minigrid_values_lie_within_the_embedding_bounds_of_the_shipped_spec(spec: Path) -> None:
    (experiment,) = load_experiments([spec])
    assert isinstance(experiment.config, PPOConfig)
    encoding = experiment.config.model.observations[""]
    assert (encoding.encode_as, encoding.bounds) == ("embedding", (0, 10))
    env = make_env(experiment.env)
    env.action_space.seed(0)
    seen = [env.reset(seed=3)[0], *(env.step(env.action_space.sample())[0] for _ in range(50))]
    assert np.shape(seen) == (51, 7, 7, 3)
    assert (np.min(seen), np.max(seen) <= 10) == (0, True)
    env.close()
