"""Messages of evolution about envs with unusable observations or episodes."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from rlrun.algorithms.evolution.ars import ARS
from rlrun.algorithms.evolution.cem import CEM
from rlrun.algorithms.evolution.cmaes import CMAES
from rlrun.algorithms.evolution.es import ES
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_watch import interrupt_requested
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.rollout import endless_episodes
from rlrun.engine.training.training import Training


class Blinks(gymnasium.Env[Any, Any]):
    """Episodes of 20 steps; in its third episode, an env shows NaN after the fourth step."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    episodes = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episodes, self.steps = self.episodes + 1, 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        blind = (self.episodes, self.steps) == (3, 4)
        return np.full(2, np.nan if blind else 0.0, np.float32), 1.0, self.steps == 20, False, {}


def trained(kind: type[Algorithm[Any]], env: EnvConfig) -> None:
    with Training(env, kind(kind.Config.parse({"num_envs_per_worker": 2}))) as training:
        for _ in range(3):
            training.step()


@pytest.mark.parametrize("kind", [ES, ARS, CMAES, CEM])
def test_a_nan_observation_is_reported_with_its_episode_and_step(kind: type[Algorithm[Any]]) -> None:
    told = r"Blinks: worker 0, env \d, episode \d+ with seed \d+, step 4: the observation contains NaN"
    with pytest.raises(EnvError, match=told):
        trained(kind, EnvConfig(id=f"{__name__}:Blinks"))


def test_an_endless_episode_causes_first_a_warning_and_then_an_error(monkeypatch: pytest.MonkeyPatch, wording) -> None:
    monkeypatch.setattr(endless_episodes, "LONG_EPISODE", 30)
    monkeypatch.setattr(endless_episodes, "LONGEST_EPISODE", 100)
    endless = EnvConfig(id="rlrun.toys:ConstantReward", kwargs={"episode_len": 10**9})
    with (
        wording.warned(UserWarning),
        wording.raised(EnvError, "100"),
    ):
        trained(ES, endless)


def test_an_interrupt_does_not_wait_for_a_long_episode_to_end(monkeypatch: pytest.MonkeyPatch, wording) -> None:
    monkeypatch.setattr(endless_episodes, "LONG_EPISODE", 30)
    endless = EnvConfig(id="rlrun.toys:ConstantReward", kwargs={"episode_len": 10**9})
    interrupt_requested.set()
    try:
        with wording.warned(UserWarning, "30"), pytest.raises(KeyboardInterrupt):
            trained(ES, endless)
    finally:
        interrupt_requested.clear()
