from __future__ import annotations

import gymnasium
import numpy as np

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.make import check_same_spaces, spaces_of
from rlrun.toys.sparse_rewards import SparseCartPole, SparseMountainCar
from tests.rounding import rounding_error


def test_sparse_mountain_car_moves_like_mountain_car_and_rewards_only_the_goal() -> None:
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


def test_an_episode_of_sparse_mountain_car_is_truncated_after_200_steps() -> None:
    env = SparseMountainCar()
    env.reset(seed=0)
    steps = [env.step(1) for _ in range(200)]
    assert [truncated for _, _, _, truncated, _ in steps] == [False] * 199 + [True]
    assert not any(reward or terminated for _, reward, terminated, _, _ in steps)


def test_sparse_mountain_car_has_the_same_spaces_as_mountain_car() -> None:
    path = "rlrun.toys:SparseMountainCar"
    check_same_spaces("env", spaces_of(EnvConfig(id="MountainCar-v0")), spaces_of(EnvConfig(id=path)))


def test_sparse_cartpole_moves_like_cartpole_and_pays_for_all_steps_at_the_end() -> None:
    mine, plain = SparseCartPole(), gymnasium.make("CartPole-v1")
    scales = np.array([2.4, 3.0, 0.2095, 3.0])
    generator = np.random.default_rng(0)
    for seed in range(3):
        seen, shown = mine.reset(seed=seed)[0], plain.reset(seed=seed)[0]
        ended, steps = False, 0
        while not ended:
            near = rounding_error(2)
            np.testing.assert_allclose(seen * scales, shown, rtol=near, atol=near)
            action = int(generator.integers(2))
            (seen, reward, ended, truncated, _), (shown, _, fallen, _, _) = mine.step(action), plain.step(action)
            steps += 1
            assert (ended, truncated, reward) == (fallen, False, steps if fallen else 0)
    short = SparseCartPole(steps=4)
    short.reset(seed=0)
    assert [short.step(1)[1:4] for _ in range(4)] == [(0.0, False, False)] * 3 + [(4.0, False, True)]


def test_restored_states_continue_identically_and_states_from_observations_restart_the_step_count() -> None:
    env, other = SparseCartPole(steps=9), SparseCartPole(steps=9)
    env.reset(seed=0)
    for action in (1, 0, 1, 0, 1):
        seen = env.step(action)[0]
    other.set_state(env.get_state())
    found = other.state_of(seen)
    np.testing.assert_allclose(found[0], env.get_state()[0], rtol=rounding_error(2))
    assert (env.get_state()[1], found[1]) == (5, 0)
    for action in (0, 1, 0, 1):
        mine, theirs = env.step(action), other.step(action)
        assert (mine[0] == theirs[0]).all()
        assert mine[1:] == theirs[1:]
    assert mine[1:4] == (9.0, False, True)
