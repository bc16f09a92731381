from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from rlrun.envs.env_config import EnvConfig
from rlrun.envs.make import make_env, spaces_of
from rlrun.envs.partial_view import PartialView

PATH = "rlrun.envs.partial_view:PartialView"


def test_only_the_numbers_that_are_asked_for_are_shown() -> None:
    config = EnvConfig.parse({"id": "CartPole-v1", "wrappers": [{"id": PATH, "kwargs": {"numbers": [0, 2]}}]})
    env, whole = make_env(config), gymnasium.make("CartPole-v1")
    np.testing.assert_array_equal(env.reset(seed=3)[0], whole.reset(seed=3)[0][[0, 2]])
    for action in (0, 1, 1, 0):
        shown, seen = env.step(action), whole.step(action)
        np.testing.assert_array_equal(shown[0], seen[0][[0, 2]])
        assert shown[1:4] == seen[1:4]
    observations, actions = spaces_of(config)
    np.testing.assert_array_equal(observations.high, whole.observation_space.high[[0, 2]])
    assert actions == whole.action_space


@pytest.mark.parametrize("numbers", [[], [4], [-1]])
def test_numbers_that_there_are_not_are_refused(numbers: list[int]) -> None:
    with pytest.raises(ValueError, match="0 to 3"):
        PartialView(gymnasium.make("CartPole-v1"), numbers)


def test_observations_that_are_no_vector_are_refused() -> None:
    with pytest.raises(ValueError, match="none"):
        PartialView(gymnasium.make("FrozenLake-v1"), [0])
