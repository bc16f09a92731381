"""Models that envs provide: known optima, and what is refused."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_model import finite_mdp
from rlrun.engine.messages.errors import UsageError


class Coin(gymnasium.Env[int, int]):
    """A custom env that provides its model: heads pays 1, tails ends the episode; the action picks the coin."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = Discrete(1), Discrete(2)
        self.P = {
            0: {coin: [(heads, 0, 1.0, False), (1 - heads, 0, 0.0, True)] for coin, heads in enumerate((0.5, 0.8))}
        }
        self.initial_state_distrib = np.ones(1)


def test_a_custom_env_provides_its_model_through_the_attributes_that_toy_text_envs_have() -> None:
    mdp = finite_mdp(EnvConfig(id=f"{__name__}:Coin"))
    assert mdp.time_limit is None
    # V = 0.8 (1 + gamma V)
    assert mdp.optimal_q(0.5).max() == pytest.approx(0.8 / (1 - 0.5 * 0.8))


@pytest.mark.parametrize(
    ("env", "best"),
    [
        ({"id": "FrozenLake-v1"}, 0.7442),
        ({"id": "FrozenLake-v1", "kwargs": {"is_slippery": False}}, 1.0),
        ({"id": "CliffWalking-v1", "max_episode_steps": 200}, -13.0),
        ({"id": "CliffWalkingSlippery-v1", "max_episode_steps": 200}, -64.7),
        ({"id": "Taxi-v4"}, 7.93),
    ],
)
def test_the_best_return_within_the_time_limit_matches_the_known_optimum(env: dict[str, Any], best: float) -> None:
    mdp = finite_mdp(EnvConfig.parse(env))
    assert mdp.at_start(mdp.optimal_q(1.0).max(-1)) == pytest.approx(best, abs=0.05 if best < -20 else 5e-3)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"id": "CartPole-v1"}, "need Discrete observation and action spaces, but this env has Box"),
        (
            {"id": "rlrun.toys:BernoulliBandit"},
            "because the env does not define its model",
        ),
        (
            {"id": "FrozenLake-v1", "wrappers": [{"id": "ClipReward"}]},
            "because wrappers may change its transition probabilities",
        ),
    ],
)
def test_envs_without_a_model_are_refused_with_the_reason(env: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        finite_mdp(EnvConfig.parse(env))
