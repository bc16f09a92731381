from __future__ import annotations

import numpy as np

from rlrun.toys.point_goals import NEAR, REACH, SPEED, PointGoals, goal
from tests.rounding import rounding_error


def goal_of(env: PointGoals, seed: int) -> np.ndarray:
    """Finds the goal by the costs of three places."""
    costs = []
    for way in ((0.0, 0.0), (SPEED, 0.0), (0.0, SPEED)):
        env.reset(seed=seed)
        costs.append(-env.step(np.array(way, np.float32))[1])
    # |p - g|^2 at p = 0 and at p = s e_i: the difference is s^2 - 2 s g_i.
    return np.array([(SPEED**2 - (cost - costs[0])) / (2 * SPEED) for cost in costs[1:]])


def test_the_goal_follows_from_the_seed_and_is_uniform_in_a_square() -> None:
    env = PointGoals()
    goals = np.array([goal_of(env, seed) for seed in range(400)])
    np.testing.assert_array_equal(goal_of(env, 3), goals[3])
    assert np.abs(goals).max() <= REACH + 1e-6
    np.testing.assert_allclose(goals.mean(0), 0.0, atol=4 * REACH / np.sqrt(3 * 400))
    np.testing.assert_allclose((goals**2).sum(1).mean(), 1 / 6, atol=0.02)


def test_an_episode_ends_at_the_goal_and_is_cut_off_at_its_length() -> None:
    env = PointGoals(episode_len=30)
    there, (place, _) = goal_of(env, 5), env.reset(seed=5)
    ends = []
    while not any(ends):
        way = np.clip(there - place, -SPEED, SPEED).astype(np.float32)
        place, reward, *ends, _ = env.step(way)
    assert ends == [True, False]
    assert -(NEAR**2) < reward <= 0
    env.reset(seed=5)
    found = [env.step(np.zeros(2, np.float32))[2:4] for _ in range(30)]
    assert found == [(False, False)] * 29 + [(False, True)]


def test_no_step_is_longer_than_the_largest_and_nothing_shows_the_goal() -> None:
    env = PointGoals()
    shown = [[env.reset(seed=seed)[0], env.step(np.array([9.0, -9.0]))[0]] for seed in (1, 2)]
    np.testing.assert_allclose(shown, [[[0, 0], [SPEED, -SPEED]]] * 2, atol=rounding_error(1))


def test_the_goal_of_a_task_is_that_of_an_episode_with_its_seed_and_overrides_it() -> None:
    env = PointGoals()
    options = goal(7)["reset_options"]
    np.testing.assert_allclose(options["goal"], goal_of(env, 7), atol=1e-6)
    env.reset(seed=3, options=options)
    _, reward, *_ = env.step(np.zeros(2, np.float32))
    assert -reward == np.square(options["goal"]).sum()
