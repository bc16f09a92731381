"""Bit flipping and reaching: goals, rewards, ends."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.goal_env import GoalEnv
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.messages.errors import UsageError
from rlrun.toys.goal_envs import BitFlip, Reach


@pytest.mark.parametrize("make", [BitFlip, Reach])
def test_they_are_gymnasium_envs_whose_rewards_are_functions_of_goals(make):
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


def test_an_episode_is_truncated_after_as_many_steps_as_there_are_bits():
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


def test_goal_functions_that_are_not_of_single_rows_are_told_and_those_that_raise_show_why():
    with pytest.raises(UsageError, match=r"compute_reward of env .*Together must be a pure function of each row"):
        GoalEnv(EnvConfig(id=f"{__name__}:Together")).rewards(*GOALS)
    with pytest.raises(EnvError, match="no such goal"):
        GoalEnv(EnvConfig(id=f"{__name__}:Broken")).rewards(*GOALS)
    with pytest.raises(UsageError, match=r"CartPole-v1 has no compute_reward"):
        GoalEnv(EnvConfig(id="CartPole-v1"))
