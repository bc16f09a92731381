"""Bit flipping and reaching: goals, rewards, ends."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.goal_env import GoalEnv
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.messages.errors import UsageError
from rlrun.toys.goal_envs import NEAR, REACH, SPEED, BitFlip, PointGoals, Reach, goal
from tests.rounding import rounding_error


@pytest.mark.parametrize("make", [BitFlip, Reach])
def test_goal_envs_follow_the_gymnasium_api_and_compute_rewards_from_goals(make):
    env = make()
    check_env(env, skip_render_check=True)
    goals = GoalEnv(EnvConfig(id=f"rlrun.toys:{make.__name__}"))
    shown, _ = env.reset(seed=0)
    for _ in range(20):
        shown, reward, terminated, truncated, info = env.step(env.action_space.sample())
        achieved, desired = shown["achieved_goal"][None], shown["desired_goal"][None]
        assert goals.rewards(achieved, desired).tolist() == [reward]
        assert goals.terminateds(achieved, desired).tolist() == [terminated]
        assert info["is_success"] == terminated == (reward == 0)
        if terminated or truncated:
            shown, _ = env.reset()


def test_flipping_each_wrong_bit_once_reaches_the_goal():
    env = BitFlip(num_bits=6)
    shown, _ = env.reset(seed=2)
    wrong = np.flatnonzero(shown["achieved_goal"] != shown["desired_goal"])
    assert len(wrong) > 0
    steps = [env.step(int(bit)) for bit in wrong]
    assert [step[1] for step in steps] == [-1.0] * (len(wrong) - 1) + [0.0]
    assert steps[-1][2]
    assert steps[-1][4] == {"is_success": 1.0}


def test_a_bit_flip_episode_is_truncated_after_one_step_for_each_bit():
    env = BitFlip(num_bits=4)
    env.reset(seed=1)
    ends = [env.step(0)[2:4] for _ in range(4)]
    assert ends == [(False, False)] * 3 + [(False, True)]


class Together(BitFlip):
    """Rewards that depend on other rows."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        """Mean over rows."""
        return super().compute_reward(achieved_goal, desired_goal, info) * len(achieved_goal)


class Broken(BitFlip):
    """Rewards that raise."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        """Raises an error of its own."""
        raise KeyError("no such goal")


GOALS = np.zeros((3, 20), np.float32), np.ones((3, 20), np.float32)


def test_reward_functions_of_goals_are_rejected_if_they_mix_rows_and_their_exceptions_are_shown(wording):
    with wording.raised(UsageError, "compute_reward"):
        GoalEnv(EnvConfig(id=f"{__name__}:Together")).rewards(*GOALS)
    with pytest.raises(EnvError, match="no such goal"):
        GoalEnv(EnvConfig(id=f"{__name__}:Broken")).rewards(*GOALS)
    with wording.raised(UsageError, "CartPole-v1", "compute_reward"):
        GoalEnv(EnvConfig(id="CartPole-v1"))


def goal_of(env: PointGoals, seed: int) -> np.ndarray:
    """Finds the goal from the costs at three places."""
    costs = []
    for way in ((0.0, 0.0), (SPEED, 0.0), (0.0, SPEED)):
        env.reset(seed=seed)
        costs.append(-env.step(np.array(way, np.float32))[1])
    # From p = 0 to p = s e_i, the cost |p - g|^2 changes by s^2 - 2 s g_i.
    return np.array([(SPEED**2 - (cost - costs[0])) / (2 * SPEED) for cost in costs[1:]])


def test_the_goal_depends_only_on_the_seed_and_is_uniform_in_a_square() -> None:
    env = PointGoals()
    goals = np.array([goal_of(env, seed) for seed in range(400)])
    np.testing.assert_array_equal(goal_of(env, 3), goals[3])
    assert np.abs(goals).max() <= REACH + 1e-6
    np.testing.assert_allclose(goals.mean(0), 0.0, atol=4 * REACH / np.sqrt(3 * 400))
    np.testing.assert_allclose((goals**2).sum(1).mean(), 1 / 6, atol=0.02)


def test_an_episode_terminates_at_the_goal_and_is_truncated_after_episode_len_steps() -> None:
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


def test_steps_are_clipped_to_the_maximum_speed_and_observations_do_not_reveal_the_goal() -> None:
    env = PointGoals()
    shown = [[env.reset(seed=seed)[0], env.step(np.array([9.0, -9.0]))[0]] for seed in (1, 2)]
    np.testing.assert_allclose(shown, [[[0, 0], [SPEED, -SPEED]]] * 2, atol=rounding_error(1))


def test_the_goal_of_a_task_is_that_of_its_seed_and_overrides_the_goal_of_the_episode() -> None:
    env = PointGoals()
    options = goal(7)["reset_options"]
    np.testing.assert_allclose(options["goal"], goal_of(env, 7), atol=1e-6)
    env.reset(seed=3, options=options)
    _, reward, *_ = env.step(np.zeros(2, np.float32))
    assert -reward == np.square(options["goal"]).sum()
