"""Scheduled settings that an algorithm fixes are read as if they were set, and missing ones are named at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlrun.algorithms.actor_q.ddpg import DDPG
from rlrun.algorithms.actor_q.sac import SAC
from rlrun.algorithms.dqn.dqn import DQN, DQNConfig
from rlrun.algorithms.ppo import PPO, PPOConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.policy import Policy
from rlrun.engine.settings.config import fixed
from rlrun.engine.training.training import Training
from tests.results import all_numbers

CARTPOLE = EnvConfig(id="CartPole-v1")
SMALL = {"model": {"hiddens": [8]}, "compile": False, "num_envs_per_worker": 2}
WARM = {"learning_starts": 50, "min_env_steps_per_iteration": 100}
SHORT = {"train_batch_size": 32, "min_env_steps_per_iteration": 0, "minibatch_size": 16, "num_epochs": 1}


@fixed("values are explored elsewhere", epsilon=0.0)
class GreedyConfig(DQNConfig):
    """DQN that never explores."""


class Greedy(DQN):
    Config = GreedyConfig


@fixed("chance is not rewarded", entropy_coeff=0.25)
class SteadyConfig(PPOConfig):
    """PPO with a constant entropy coefficient."""


class Steady(PPO):
    Config = SteadyConfig


def steps(algorithm: type[Algorithm[Any]], **settings: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Returns the parameters after two iterations, and the iterations' results."""
    with Training(CARTPOLE, algorithm(algorithm.Config.parse({**SMALL, **settings}))) as training:
        results = [training.step() for _ in range(2)]
        told = all_numbers(results)
        return training.running.trainees[0].learner.flat(), told


@pytest.mark.parametrize(
    ("fixing", "plain", "name", "value", "settings"),
    [
        (Greedy, DQN, "epsilon", 0.0, WARM),
        (Steady, PPO, "entropy_coeff", 0.25, SHORT),
    ],
)
def test_a_fixed_schedule_has_the_effect_of_a_configured_one_but_is_not_reported(
    fixing: type[Algorithm[Any]], plain: type[Algorithm[Any]], name: str, value: float, settings: dict[str, Any]
) -> None:
    flat, results = steps(fixing, **settings)
    expected, reported = steps(plain, **settings, **{name: value})
    np.testing.assert_array_equal(flat, expected)
    assert [{**row, f"learner/{name}": value} for row in results] == reported
    assert all(f"learner/{name}" not in row for row in results)


def test_a_subclass_of_a_config_with_a_fixed_schedule_inherits_its_value() -> None:
    class Derived(GreedyConfig):
        """Another config of this kind."""

    assert Derived.fixed_schedules() == GreedyConfig.fixed_schedules() == {"epsilon": 0.0}
    assert DQNConfig.fixed_schedules() == {}


class Lacking(SAC):
    """Acts with DDPG's policy but SAC's settings."""

    def policy(self, spaces: Spaces, seed: int) -> Policy:
        return DDPG(DDPG.Config.parse({"model": {"hiddens": [4]}})).policy(spaces, seed)


def test_a_policy_that_uses_a_scheduled_setting_missing_from_its_config_is_refused() -> None:
    training = Training(EnvConfig(id="Pendulum-v1"), Lacking(Lacking.Config()))
    told = (
        "its policy, a DeterministicPolicy, uses the scheduled setting 'exploration_noise', which SACConfig lacks: "
        "add a field `exploration_noise: Schedule` to it"
    )
    with pytest.raises(UsageError, match=told):
        training.description.check()
    with pytest.raises(UsageError, match=told), training:
        training.step()
