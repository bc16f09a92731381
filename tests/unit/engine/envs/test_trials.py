"""Trials of several episodes of one task, on bandits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Dict, Discrete

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.make import make_env
from rlrun.engine.envs.trials import Trials
from rlrun.toys.bandits import ARMS, BernoulliBandit, two_arms

BANDIT = {
    "id": "rlrun.toys:BernoulliBandit",
    "wrappers": [{"id": "rlrun.plugin:Trials", "kwargs": {"episodes": 5}}],
    "tasks": "rlrun.toys:two_arms",
}


def test_a_trial_is_several_episodes_of_the_task_that_its_seed_draws() -> None:
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


def test_a_trial_can_be_repeated_and_its_episodes_differ() -> None:
    env = Trials(BernoulliBandit(), 40)
    rewards = []
    for seed in (1, 1, 2):
        env.reset(seed=seed)
        rewards.append([env.step(1)[1] for _ in range(40)])
    assert rewards[0] == rewards[1] != rewards[2]
    assert 10 < sum(rewards[0]) < 30


def test_longer_episodes_show_done_where_the_next_one_begins() -> None:
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
    """Returns the regret of Thompson sampling over some pulls in each of some Bernoulli bandits, [N].

    Each arm's probability has a uniform prior. At each pull a probability of each arm is drawn from its posterior, a
    beta distribution, and the arm with the largest one is pulled.

    Args:
        tasks: Probabilities of the arms, [N, A].
        pulls: How many pulls each bandit gets.
        generator: What is drawn from.

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


def test_thompson_sampling_regrets_less_the_better_it_knows_the_arms() -> None:
    """Of two arms that pay p and q, each pull of the worse one costs the difference; the first is either one."""
    draws = np.random.default_rng(0)
    tasks = np.tile([0.9, 0.1], (4_000, 1))
    regrets = {pulls: thompson_regrets(tasks, pulls, draws) for pulls in (1, 2, 40)}
    assert regrets[1].mean() == pytest.approx(0.4, abs=0.03)
    # After one pull an arm is known by one reward: P(beta(2, 1) > beta(1, 1)) = 2/3, and so on by symmetry.
    right = 0.5 * (0.9 * 2 / 3 + 0.1 / 3) + 0.5 * (0.9 * 2 / 3 + 0.1 / 3)
    assert regrets[2].mean() == pytest.approx(0.4 + 0.8 * (1 - right), abs=0.04)
    assert regrets[40].mean() < 3.0
    assert not thompson_regrets(np.tile([0.3, 0.3], (10, 1)), 20, draws).any()
