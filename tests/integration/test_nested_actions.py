"""Training with actions that are Tuples and Dicts, masked and not: every policy gradient learns, others say no."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from rlrun.envs.spaces import Spaces
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


class Panel(gymnasium.Env):
    """Shows a number and what is allowed of a lever and two switches; refuses the rest.

    Pays 1/3 each for the first allowed place of the lever, a knob near the number, and the lamp that the number says.
    """

    observation_space = Dict(
        {"action_mask": MultiBinary(7), "number": Box(-1, 1, (1,)), "copy": Dict({"of_the_mask": MultiBinary(7)})}
    )
    action_space = Dict(
        {
            "lever": Discrete(3, start=1),
            "rest": Tuple([MultiDiscrete([2, 2]), MultiBinary(1), Box(-2, 2, (1,))]),
        }
    )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.elapsed = 0
        return self.show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        lever, (switches, lamp, knob) = action["lever"] - 1, action["rest"]
        assert self.mask[lever]
        assert self.mask[3:5][switches[0]]
        assert self.mask[5:][switches[1]]
        self.elapsed += 1
        right = [lever == self.mask[:3].argmax(), abs(knob[0] - self.number) < 0.5, lamp[0] == (self.number > 0)]
        return self.show(), float(np.mean(right)), False, self.elapsed == 10, {}

    def show(self) -> dict[str, Any]:
        self.mask = self.np_random.integers(0, 2, 7, np.int8)
        for first, last in ((0, 3), (3, 5), (5, 7)):
            self.mask[self.np_random.integers(first, last)] = 1
        self.number = self.np_random.uniform(-1, 1)
        return {
            "action_mask": self.mask,
            "number": np.array([self.number], np.float32),
            "copy": {"of_the_mask": self.mask},
        }


PANEL = f"{__name__}:Panel"


def test_ppo_learns_every_part_of_a_nested_action_under_a_mask() -> None:
    with PPO(PANEL, PPO_LEARNS, seed=1) as learning:
        before = learning.evaluate(20).mean
        while learning.train()["env_steps"] < 8_000:
            pass
        assert learning.evaluate(20).mean > max(7.0, before + 1)  # 10 is the best


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
    with algorithm(PANEL, config, seed=1) as learning:
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

    with PPO(PANEL, PPO_LEARNS, seed=1) as learning:
        rows(learning)
        learning.save(tmp_path / "checkpoint")
        expected = rows(learning)
    with PPO.restore(tmp_path / "checkpoint", trust=True) as restored:
        assert rows(restored) == expected


def test_act_returns_a_nested_action_of_the_env_s_space() -> None:
    env = Panel()
    with PPO(PANEL, PPO_LEARNS, seed=1) as learning:
        seen, _ = env.reset(seed=0)
        for _ in range(10):
            action = learning.act(seen)
            assert env.action_space.contains(action)
            seen, *_ = env.step(action)


@pytest.mark.parametrize("name", ["dqn", "r2d2", "sac", "td3", "ddpg", "qtopt", "apex"])
def test_algorithms_that_learn_values_of_actions_refuse_nested_ones(name: str) -> None:
    algorithm = algorithm_class(name)
    with pytest.raises(UsageError, match=r"not in Dict\("):
        algorithm(algorithm.Config()).policy(Spaces(Panel.observation_space, Panel.action_space), 0)
