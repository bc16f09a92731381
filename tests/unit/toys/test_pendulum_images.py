"""Pendulum as pictures."""

from __future__ import annotations

import gymnasium
import numpy as np

from rlrun.toys.pendulum_images import PendulumImages


def test_a_picture_shows_where_the_rod_points() -> None:
    env = PendulumImages(gymnasium.make("Pendulum-v1"))
    up = env.observation(np.array([1, 0, 3], np.float32))[..., 0]
    left = env.observation(np.array([0, 1, 3], np.float32))[..., 0]
    down = env.observation(np.array([-1, 0, -5], np.float32))[..., 0]
    assert (up[15, 32], up[50, 32], up[32, 15]) == (255, 0, 0)
    assert (left[32, 15], left[32, 50], left[15, 32]) == (255, 0, 0)
    np.testing.assert_array_equal(down, up[::-1])


def test_pictures_are_in_their_space_and_repeat_with_the_seed() -> None:
    env = PendulumImages(gymnasium.make("Pendulum-v1"), size=48)
    first, _ = env.reset(seed=3)
    assert env.observation_space.contains(first)
    assert first.shape == (48, 48, 1)
    np.testing.assert_array_equal(env.reset(seed=3)[0], first)
    assert 0 < np.mean(first) < 60
