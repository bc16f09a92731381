"""Trials of several episodes of one task, on bandits."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Dict, Discrete

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.make import make_env
from rlrun.engine.envs.trials import Trials, TrialsWithValues
from rlrun.toys.bandits import ARMS, BernoulliBandit, two_arms
from rlrun.toys.tabular_mdps import RandomMDP, random_mdp

BANDIT = {
    "id": "rlrun.toys:BernoulliBandit",
    "wrappers": [{"id": "rlrun.plugin:Trials", "kwargs": {"episodes": 5}}],
    "tasks": "rlrun.toys:two_arms",
}


def test_a_trial_plays_several_episodes_of_the_task_drawn_by_its_seed() -> None:
    env = make_env(EnvConfig.parse(BANDIT))
    assert env.observation_space == Dict({"done": Discrete(2), "observation": Discrete(1)})
    for seed in range(3):
        arms = two_arms(seed)["reset_options"][ARMS]
        observation, _ = env.reset(seed=seed)
        assert observation == {"done": 0, "observation": 0}
        for pull in range(5):
            observation, reward, terminated, truncated, info = env.step(0)
            assert observation["done"] == 1
            assert reward in (0.0, 1.0)
            assert (terminated, truncated) == (pull == 4, False)
            assert info["task/probabilities/0"] == arms[0]
        assert info["minus_regret"] == pytest.approx(5 * (arms[0] - max(arms)))


def test_a_trial_is_determined_by_its_seed_and_differs_between_seeds() -> None:
    env = Trials(BernoulliBandit(), 40)
    rewards = []
    for seed in (1, 1, 2):
        env.reset(seed=seed)
        rewards.append([env.step(1)[1] for _ in range(40)])
    assert rewards[0] == rewards[1] != rewards[2]
    assert 10 < sum(rewards[0]) < 30


def test_the_first_observation_of_the_next_episode_shows_that_the_previous_one_is_done() -> None:
    env = make_env(
        EnvConfig.parse(
            {
                "id": "CartPole-v1",
                "max_episode_steps": 3,
                "wrappers": [{"id": "rlrun.plugin:Trials", "kwargs": {"episodes": 2}}],
            }
        )
    )
    first, _ = env.reset(seed=0)
    steps = [env.step(0) for _ in range(6)]
    assert [int(step[0]["done"]) for step in steps] == [0, 0, 1, 0, 0, 1]
    assert [step[2] or step[3] for step in steps] == [False] * 5 + [True]
    assert steps[-1][3]
    assert abs(steps[2][0]["observation"]).max() <= 0.05  # a first observation of CartPole
    assert (steps[2][0]["observation"] != first["observation"]).any()


def thompson_regrets(tasks: np.ndarray[Any, Any], pulls: int, generator: np.random.Generator) -> np.ndarray[Any, Any]:
    """Returns the regret of Thompson sampling over a number of pulls in Bernoulli bandits, [N].

    Each arm's probability has a uniform prior. At each pull a probability of each arm is drawn from its posterior, a
    beta distribution, and the arm with the largest one is pulled.

    Args:
        tasks: Probabilities of the arms, [N, A].
        pulls: How many pulls each bandit gets.
        generator: Generator of the draws.

    Source:
        Thompson, "On the likelihood that one unknown probability exceeds another in view of the evidence of two
        samples", 1933; Chapelle and Li, "An empirical evaluation of Thompson sampling", 2011, algorithm 2.
    """
    number = np.arange(len(tasks))
    paid, failed = np.ones(tasks.shape), np.ones(tasks.shape)
    regrets = np.zeros(len(tasks))
    for _ in range(pulls):
        arms = generator.beta(paid, failed).argmax(axis=1)
        own = tasks[number, arms]
        pays = generator.random(len(tasks)) < own
        paid[number, arms] += pays
        failed[number, arms] += ~pays
        regrets += tasks.max(axis=1) - own
    return regrets


def test_the_regret_of_thompson_sampling_shrinks_as_it_learns_the_arms() -> None:
    """Two arms pay p and q, and each pull of the worse one costs the difference; the first pull is random."""
    draws = np.random.default_rng(0)
    tasks = np.tile([0.9, 0.1], (4_000, 1))
    regrets = {pulls: thompson_regrets(tasks, pulls, draws) for pulls in (1, 2, 40)}
    assert regrets[1].mean() == pytest.approx(0.4, abs=0.03)
    # After one pull, one reward of one arm is known. After a reward of 1, P(beta(2, 1) > beta(1, 1)) = 2/3; the other
    # cases follow by symmetry.
    right = 0.5 * (0.9 * 2 / 3 + 0.1 / 3) + 0.5 * (0.9 * 2 / 3 + 0.1 / 3)
    assert regrets[2].mean() == pytest.approx(0.4 + 0.8 * (1 - right), abs=0.04)
    assert regrets[40].mean() < 3.0
    assert not thompson_regrets(np.tile([0.3, 0.3], (10, 1)), 20, draws).any()


class Corridor(gymnasium.Env):
    """Two states: action 1 moves from 1 to 2 for a reward of 0, then out for a reward of 1; action 0 stays."""

    observation_space = gymnasium.spaces.Discrete(2, start=1)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.state = 1
        return 1, {}

    def step(self, action):
        leaves = action == 1 and self.state == 2
        self.state = min(self.state + int(action), 2)
        return self.state, float(leaves), leaves, False, {}


def test_values_are_computed_from_the_mdp_estimated_during_the_trial() -> None:
    env = TrialsWithValues(Corridor(), episodes=3, gamma=0.5)
    first, _ = env.reset(seed=0)
    assert (first["value"].tolist(), first["advantages"].tolist()) == ([0], [0, 0])
    assert first["visits"].tolist() == [0, 0]
    env.step(1)
    shown = [env.step(1)[0], env.step(0)[0]]  # leaves the corridor; then the next episode begins in state 1
    assert shown[0]["done"] == 1
    assert [one["value"].tolist() for one in shown] == [[0.5], [0.5]]
    # The untried action is expected to earn no reward, followed by half of the mean of both states' values, 0.5 and 1.
    assert shown[0]["advantages"].tolist() == pytest.approx([0.375 - 0.5, 0])
    assert shown[1]["advantages"].tolist() == pytest.approx([0.25 - 0.5, 0])
    np.testing.assert_allclose(shown[1]["visits"], np.log([2, 2]), rtol=1e-6)
    again, _ = env.reset(seed=1)
    assert again["value"].tolist() == [0]  # the trial with another task starts from nothing


def test_values_in_a_bandit_come_from_the_mean_rewards_of_each_arms_pulls() -> None:
    env = TrialsWithValues(BernoulliBandit(), episodes=50, gamma=0.9)
    env.reset(seed=3, options={"probabilities": [0.3, 0.8]})
    pulls: dict[int, list[float]] = {0: [], 1: []}
    for pull in range(30):
        action = pull % 2
        shown, reward, *_ = env.step(action)
        pulls[action].append(float(reward))
    values = np.array([np.mean(pulls[0]), np.mean(pulls[1])])
    assert shown["value"].tolist() == pytest.approx([values.max()])
    assert shown["advantages"].tolist() == pytest.approx((values - values.max()).tolist(), abs=1e-6)
    np.testing.assert_allclose(shown["visits"], np.log([16, 16]), rtol=1e-6)


def test_values_are_added_to_a_trial_without_changing_anything_else_in_it() -> None:
    plain, valued = Trials(RandomMDP(), episodes=3), TrialsWithValues(RandomMDP(), episodes=3)
    options = random_mdp(5)["reset_options"]
    plain.reset(seed=2, options=options)
    valued.reset(seed=2, options=options)
    for step in range(30):
        (seen, *rest), (more, *others) = plain.step(step % 5), valued.step(step % 5)
        assert rest == others
        assert {key: more[key] for key in seen} == seen
        assert more in valued.observation_space
    assert others[2] is True


def test_values_require_discrete_spaces() -> None:
    with pytest.raises(ValueError, match="must be Discrete, not Box"):
        TrialsWithValues(gymnasium.make("CartPole-v1"))
