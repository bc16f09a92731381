"""What gates of recurrent policies and R2D3 are worth: without memory or demonstrations, they are out of reach."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rlrun

CONFIGS = Path(__file__).parents[2] / "configs"
POSITIONS = {
    "id": "CartPole-v1",
    "wrappers": [{"id": "rlrun.plugin:PartialView", "kwargs": {"numbers": [0, 2]}}],
}


@pytest.mark.regress
@pytest.mark.timeout(1800)
def test_dqn_without_memory_cannot_balance_a_pole_whose_velocity_is_hidden() -> None:
    config = {"num_envs_per_worker": 8, "rollout_fragment_length": 8, "training_intensity": 0.1, "n_step": 3}
    schedules = {"lr": 1e-3, "epsilon": [[0, 1.0], [10_000, 0.05]]}
    returns = []
    with rlrun.Training(POSITIONS, rlrun.DQN(**{**config, **schedules}), seed=0, total_env_steps=100_000) as training:
        for part in range(1, 21):
            while training.step()["env_steps"] < 5_000 * part:
                pass
            returns.append(training.evaluate(20).mean)
    assert np.mean(returns[-5:]) < 150, returns
    assert max(returns) < 150, returns


@pytest.mark.regress
@pytest.mark.timeout(1800)
def test_ppo_without_a_core_cannot_balance_a_pole_whose_velocity_is_hidden(tmp_path: Path) -> None:
    spec = CONFIGS / "cartpole/ppo_lstm_position_only.yaml"
    (trial,) = rlrun.run(spec, overrides=["config.model.core=null"], runs_dir=tmp_path)
    evaluated = "evaluation/episode_return_mean"
    returns = [row[evaluated] for row in trial.results() if row.get(evaluated) is not None]
    assert len(returns) > 5
    assert max(returns) < 150, returns


@pytest.mark.regress
@pytest.mark.timeout(1800)
def test_r2d3_solves_mountain_car_only_with_demonstrations(tmp_path: Path) -> None:
    def final_return(*overrides: str) -> float:
        # With normalized velocities, even a run without demonstrations reaches the goal by chance.
        raw = ["config.normalize_observations=false", *overrides]
        (trial,) = rlrun.run(CONFIGS / "mountaincar/r2d3.yaml", overrides=raw, runs_dir=tmp_path)
        found: float = trial.last_result["evaluation/episode_return_mean"]
        return found

    assert final_return("config.demonstration_ratio=0.0", "stop.env_steps=50000") < -190
    assert final_return() > -160
