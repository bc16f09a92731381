"""What gates of imitation are worth: a policy that imitates a falling expert falls when the expert does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rlrun
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.make import make_env
from rlrun.toys.scripted_players import balance_pole

CONFIGS = Path(__file__).parents[2] / "configs"


def record_falls(folder: Path, *, episodes: int = 20, balanced: int = 50) -> float:
    """Records an expert that balances for some steps, then pushes to one side; returns the mean episode length."""
    env = make_env(EnvConfig.parse({"id": "CartPole-v1"}), seed=0)
    lengths = []
    with SetWriter(folder, env.observation_space, env.action_space) as writer:
        for seed in range(episodes):
            observations, actions, over = [env.reset(seed=seed)[0]], [], False
            while not over:
                actions.append(balance_pole(observations[-1]) if len(actions) < balanced else 1)
                observation, _, over, _, _ = env.step(actions[-1])
                observations.append(observation)
            ends = np.arange(1, len(actions) + 1) == len(actions)
            rows = {"obs": np.stack(observations), "actions": np.array(actions), "rewards": np.ones(len(actions))}
            writer.add_episode({**rows, "terminateds": ends, "truncateds": np.zeros_like(ends)})
            lengths.append(len(actions))
    env.close()
    return float(np.mean(lengths))


@pytest.mark.regress
@pytest.mark.timeout(600)
def test_gail_learns_to_fall_about_when_its_expert_falls(tmp_path: Path) -> None:
    assert 55 < record_falls(tmp_path / "falls") < 65
    overrides = [f"config.expert={tmp_path / 'falls'}", "seeds=3", "evaluation=null", "expect=null"]
    trials = rlrun.run(CONFIGS / "cartpole/gail.yaml", overrides=overrides, runs_dir=tmp_path / "runs")
    lengths = [trial.last_result["episode_len_mean"] for trial in trials]
    assert 40 <= np.mean(lengths) <= 90, lengths
    assert max(lengths) < 150, lengths  # with rewards for steps alone, episodes would last 10 or 500 steps
