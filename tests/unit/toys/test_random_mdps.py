from __future__ import annotations

import itertools

import numpy as np
import pytest

from rlrun.toys.random_mdps import RandomMDP, random_mdp


def test_a_task_is_one_mdp_and_another_task_another_one() -> None:
    env = RandomMDP()
    options = [random_mdp(seed)["reset_options"] for seed in (1, 1, 2)]
    found = []
    for option in options:
        env.reset(seed=0, options=option)
        found.append(env.best_return)
    assert found[0] == found[1] != found[2]


def test_the_best_return_is_that_of_the_best_of_all_plans_of_two_steps() -> None:
    env = RandomMDP(num_states=2, num_actions=2, episode_len=2)
    env.reset(seed=0, options={"mdp": 4})
    rewards, moves = env._rewards, np.diff(env._cumulated, prepend=0.0)
    worths = [
        rewards[0, first] + sum(moves[0, first, state] * rewards[state, then[state]] for state in (0, 1))
        for first, *then in itertools.product((0, 1), repeat=3)
    ]
    assert env.best_return == pytest.approx(max(worths))


def test_rewards_and_successors_are_drawn_as_the_mdp_says() -> None:
    env = RandomMDP(num_states=3, num_actions=2, episode_len=1)
    rewards, states = [], []
    for seed in range(3000):
        env.reset(seed=seed, options={"mdp": 7})
        state, reward, terminated, truncated, info = env.step(1)
        rewards.append(reward)
        states.append(state)
    assert (terminated, truncated) == (False, True)
    assert np.mean(rewards) == pytest.approx(env._rewards[0, 1], abs=0.06)
    np.testing.assert_allclose(
        np.bincount(states, minlength=3) / 3000, np.diff(env._cumulated[0, 1], prepend=0.0), atol=0.03
    )
    assert info["minus_regret"] == pytest.approx(env._rewards[0, 1] - env.best_return)
