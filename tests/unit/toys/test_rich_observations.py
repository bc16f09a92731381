"""Worlds of entities and images are Gymnasium envs, and their observations determine the right action."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from rlrun.toys.rich_observations import HighestEntity, PendulumImages, TwoCameras


def kind_of_the_highest(observation: Any) -> int:
    there = observation["entities"][observation["entity_mask"] == 1]
    return int(there[there[:, 0].argmax(), 1:].argmax())


def bright_halves(observation: Any) -> int:
    def is_right(image: Any) -> bool:
        middle = image.shape[1] // 2
        return bool(image[:, middle:].mean() > image[:, :middle].mean())

    rear = is_right(observation["rear"]) ^ (observation["turned"][0] > 0)
    return 2 * is_right(observation["front"]) + int(rear)


@pytest.mark.parametrize(("world", "right"), [(HighestEntity, kind_of_the_highest), (TwoCameras, bright_halves)])
def test_always_choosing_the_right_action_gets_the_best_return(world: Any, right: Any) -> None:
    env = world()
    check_env(env, skip_render_check=True)
    for seed in range(5):
        observation, _ = env.reset(seed=seed)
        total, terminated = 0.0, False
        while not terminated:
            assert env.observation_space.contains(observation)
            observation, reward, terminated, truncated, _ = env.step(right(observation))
            total += reward
            assert not truncated
        assert total == 10.0


def test_the_number_of_entities_varies_and_is_at_least_one() -> None:
    env = HighestEntity(num_entities=4)
    numbers = {int(env.reset(seed=seed)[0]["entity_mask"].sum()) for seed in range(50)}
    assert numbers == {1, 2, 3, 4}
    masked = [env.reset(seed=seed)[0] for seed in range(50)]
    assert np.mean([one["entities"][one["entity_mask"] == 0].any() for one in masked]) > 0.5


def test_a_picture_shows_where_the_rod_points() -> None:
    env = PendulumImages(gymnasium.make("Pendulum-v1"))
    up = env.observation(np.array([1, 0, 3], np.float32))[..., 0]
    left = env.observation(np.array([0, 1, 3], np.float32))[..., 0]
    down = env.observation(np.array([-1, 0, -5], np.float32))[..., 0]
    assert (up[15, 32], up[50, 32], up[32, 15]) == (255, 0, 0)
    assert (left[32, 15], left[32, 50], left[15, 32]) == (255, 0, 0)
    np.testing.assert_array_equal(down, up[::-1])


def test_pictures_belong_to_their_space_and_are_the_same_for_the_same_seed() -> None:
    env = PendulumImages(gymnasium.make("Pendulum-v1"), size=48)
    first, _ = env.reset(seed=3)
    assert env.observation_space.contains(first)
    assert first.shape == (48, 48, 1)
    np.testing.assert_array_equal(env.reset(seed=3)[0], first)
    assert 0 < np.mean(first) < 60
