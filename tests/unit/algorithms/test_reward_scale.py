"""A constant reward scale: learning is as in an env with scaled rewards, but returns are still the env's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv, PendulumEnv

import rlrun
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.envs.env_config import EnvConfig

FACTOR = 0.25  # a power of two, so that products are exact
OFF_POLICY = {
    "learning_starts": 16,
    "min_env_steps_per_iteration": 64,
    "minibatch_size": 8,
    "n_step": 3,
    "replay": {"capacity": 100, "sampling": "prioritized"},
    "model": {"hiddens": [8]},
}
ON_POLICY = {
    "num_envs_per_worker": 2,
    "train_batch_size": 32,
    "minibatch_size": 16,
    "num_epochs": 1,
    "model": {"hiddens": [8]},
}


class PayingPole(CartPoleEnv):
    """CartPole whose rewards are multiplied."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def step(self, action: Any) -> Any:
        obs, reward, *others = super().step(action)
        return obs, self.factor * reward, *others


class PayingPendulum(PendulumEnv):
    """Pendulum whose rewards are multiplied."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def step(self, action: Any) -> Any:
        obs, reward, *others = super().step(action)
        return obs, self.factor * reward, *others


@pytest.mark.parametrize(
    ("algorithm", "env", "config"),
    [
        (rlrun.SAC, "PayingPendulum", OFF_POLICY),
        (rlrun.DQN, "PayingPole", {**OFF_POLICY, "clip_rewards": FACTOR}),
        (rlrun.PPO, "PayingPole", {**ON_POLICY, "curiosity": {"kind": "rnd"}}),
    ],
)
def test_reward_scale_has_exactly_the_effect_of_multiplying_the_rewards_in_the_env(
    algorithm: type[Algorithm[Any]], env: str, config: dict[str, Any]
) -> None:
    def trained(factor: float, scale: float) -> tuple[np.ndarray, float]:
        where = EnvConfig(id=f"{__name__}:{env}", kwargs={"factor": factor}, max_episode_steps=20)
        learns = algorithm(**config, reward_scale=scale)
        with rlrun.Training(where, learns, seed=3) as training:
            result = training.step()
            return training.running.trainee.learner.flat(), result["episode_return_mean"]

    (of_env, paid), (of_setting, raw), (plain, _) = trained(FACTOR, 1.0), trained(1.0, FACTOR), trained(1.0, 1.0)
    np.testing.assert_array_equal(of_setting, of_env)
    assert raw == paid / FACTOR
    assert algorithm is rlrun.DQN or (of_setting != plain).any()  # DQN clips both to the same values
