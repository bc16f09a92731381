from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from rlrun.envs.env_config import EnvConfig
from rlrun.envs.make import make_env, spaces_of
from rlrun.envs.partial_view import Flicker, PartialView

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


def test_a_flickering_env_hides_about_so_many_observations_and_the_same_ones_in_a_repeated_episode() -> None:
    env, whole = Flicker(gymnasium.make("Pendulum-v1"), 0.25), gymnasium.make("Pendulum-v1")
    hidden = []
    for seed in range(20):
        episodes = []
        for _ in range(2):
            shown = [env.reset(seed=seed)[0], *(env.step([0.5])[0] for _ in range(50))]
            episodes.append(np.array(shown))
        np.testing.assert_array_equal(episodes[0], episodes[1])
        true = np.array([whole.reset(seed=seed)[0], *(whole.step([0.5])[0] for _ in range(50))])
        is_hidden = ~episodes[0].any(axis=1)
        np.testing.assert_array_equal(episodes[0][~is_hidden], true[~is_hidden])
        hidden.append(is_hidden)
    assert 0.2 < np.mean(hidden) < 0.3
    assert len({tuple(each) for each in hidden}) == 20


def test_zeros_are_among_the_observations_of_a_flickering_env() -> None:
    class Far(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(3.0, 5.0, (2,))
        action_space = gymnasium.spaces.Discrete(2)

    assert Flicker(Far()).observation_space == gymnasium.spaces.Box(0.0, 5.0, (2,))
    with pytest.raises(ValueError, match="between 0 and 1"):
        Flicker(Far(), 1.5)
    with pytest.raises(ValueError, match="none"):
        Flicker(gymnasium.make("FrozenLake-v1"))
