from __future__ import annotations

import gymnasium
import numpy as np

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.make import check_same_spaces, spaces_of
from rlrun.toys.sparse_mountain_car import SparseMountainCar


def test_it_moves_as_mountain_car_does_and_pays_at_the_goal_alone() -> None:
    sparse, known = SparseMountainCar(), gymnasium.make("MountainCar-v0")
    observation = sparse.reset(seed=4)[0]
    np.testing.assert_array_equal(observation, known.reset(seed=4)[0])
    rewards, terminated = [], False
    while not terminated:
        action = 2 if observation[1] >= 0 else 0
        observation, reward, terminated, truncated, _ = sparse.step(action)
        expected, _, known_terminated, _, _ = known.step(action)
        np.testing.assert_array_equal(observation, expected)
        assert (terminated, truncated) == (known_terminated, False)
        rewards.append(reward)
    assert 80 < len(rewards) < 140
    assert rewards == [0.0] * (len(rewards) - 1) + [1.0]


def test_an_episode_is_cut_off_after_200_steps() -> None:
    env = SparseMountainCar()
    env.reset(seed=0)
    steps = [env.step(1) for _ in range(200)]
    assert [truncated for _, _, _, truncated, _ in steps] == [False] * 199 + [True]
    assert not any(reward or terminated for _, reward, terminated, _, _ in steps)


def test_a_policy_of_one_can_be_judged_in_the_other() -> None:
    path = "rlrun.toys:SparseMountainCar"
    check_same_spaces("env", spaces_of(EnvConfig(id="MountainCar-v0")), spaces_of(EnvConfig(id=path)))
