"""Training with actions that are Tuples and Dicts, masked and not: every policy gradient learns, others say no."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun.envs.env_config import EnvConfig
from rlrun.envs.make import spaces_of
from rlrun.envs.masked_worlds import MaskedConsole
from rlrun.errors import UsageError
from rlrun.python_api import A2C, A3C, APPO, PG, PPO, Impala
from rlrun.registry import algorithm_class
from rlrun.trial.results import is_timing

ON_POLICY = {
    "model": {"hiddens": [32]},
    "compile": False,
    "num_envs_per_worker": 4,
    "train_batch_size": 256,
    "min_env_steps_per_iteration": 500,
}
GRU = {"hiddens": [16], "core": "gru", "core_width": 16}
PPO_LEARNS = {**ON_POLICY, "gamma": 0.5, "lr": 3e-3, "train_batch_size": 512, "minibatch_size": 128, "num_epochs": 4}


CONSOLE = "rlrun.envs.masked_worlds:MaskedConsole"


def test_ppo_learns_every_part_of_a_nested_action_under_a_mask() -> None:
    with PPO(CONSOLE, PPO_LEARNS, seed=1) as learning:
        before = learning.evaluate(20).mean  # about 6
        while learning.train()["env_steps"] < 3_000:
            pass
        assert learning.evaluate(20).mean > max(8.5, before + 1)  # 10 is the best


ALGORITHMS = {
    "a2c": (A2C, ON_POLICY),
    "a3c": (A3C, {**ON_POLICY, "rollout_fragment_length": 8}),
    "pg": (PG, ON_POLICY),
    "impala": (Impala, ON_POLICY),
    "appo": (APPO, {**ON_POLICY, "num_epochs": 2}),
    "ppo, shared, filtered": (
        PPO,
        {**PPO_LEARNS, "model": {"hiddens": [16], "shared_value": True}, "normalize_observations": True},
    ),
    "ppo with memory": (PPO, {**PPO_LEARNS, "num_epochs": 1, "model": GRU}),
    "impala with memory": (Impala, {**ON_POLICY, "model": GRU}),
}


@pytest.mark.parametrize(("algorithm", "config"), ALGORITHMS.values(), ids=ALGORITHMS)
def test_every_policy_gradient_takes_nested_actions_and_no_forbidden_one(algorithm: Any, config: Any) -> None:
    with algorithm(CONSOLE, config, seed=1) as learning:
        results = [learning.train() for _ in range(2)]
        evaluated = learning.evaluate(3, explore=True)
    numbers = [value for name, value in results[-1].items() if not is_timing(name) and isinstance(value, float)]
    assert results[-1]["sgd_steps"] > 0
    assert np.isfinite(numbers).all()
    assert np.isfinite(evaluated.returns).all()


def test_a_run_with_nested_actions_is_resumed_bit_for_bit(tmp_path: Path) -> None:
    def rows(learning: Any) -> list[dict[str, Any]]:
        results = (learning.train() for _ in range(2))
        return [{name: value for name, value in result.items() if not is_timing(name)} for result in results]

    with PPO(CONSOLE, PPO_LEARNS, seed=1) as learning:
        rows(learning)
        learning.save(tmp_path / "checkpoint")
        expected = rows(learning)
    with PPO.restore(tmp_path / "checkpoint") as restored:
        assert rows(restored) == expected


def test_act_returns_a_nested_action_of_the_env_s_space() -> None:
    env = MaskedConsole()
    with PPO(CONSOLE, PPO_LEARNS, seed=1) as learning:
        seen, _ = env.reset(seed=0)
        for _ in range(10):
            action = learning.act(seen)
            assert env.action_space.contains(action)
            seen, *_ = env.step(action)


@pytest.mark.parametrize("name", ["dqn", "r2d2", "sac", "td3", "ddpg", "qtopt", "apex"])
def test_algorithms_that_learn_values_of_actions_refuse_nested_ones(name: str) -> None:
    algorithm = algorithm_class(name)
    with pytest.raises(UsageError, match=r"not in Dict\("):
        algorithm(algorithm.Config()).policy(spaces_of(EnvConfig(id=CONSOLE)), 0)
