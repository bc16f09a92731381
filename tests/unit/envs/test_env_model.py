"""Models that envs tell: known optima, and what is refused."""

from typing import Any

import pytest

from rlrun.envs.env_config import EnvConfig
from rlrun.envs.env_model import finite_mdp
from rlrun.errors import UsageError


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
def test_the_best_return_within_the_time_limit_is_the_known_one(env: dict[str, Any], best: float) -> None:
    mdp = finite_mdp(EnvConfig.parse(env))
    assert mdp.at_start(mdp.optimal_q(1.0).max(-1)) == pytest.approx(best, abs=0.05 if best < -20 else 5e-3)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"id": "CartPole-v1"}, "need Discrete observations and actions; it has Box"),
        ({"id": "rlrun.envs.bandits:BernoulliBandit"}, "does not tell its model"),
        ({"id": "FrozenLake-v1", "wrappers": [{"id": "ClipReward"}]}, "as wrappers may change what its model says"),
    ],
)
def test_envs_without_a_model_are_refused_with_the_reason(env: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        finite_mdp(EnvConfig.parse(env))
