"""Training with Tuple and Dict actions, masked or not: all policy gradients learn, other algorithms refuse."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from rlrun import A2C, A3C, APPO, PG, PPO, Impala, Training
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.make import spaces_of
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.registry import algorithm_class
from rlrun.engine.worlds.world import World, WorldStep
from rlrun.experiments.trial.results import is_timing
from rlrun.toys.masked_envs import MaskedConsole
from tests.results import all_numbers

ON_POLICY = {
    "model": {"hiddens": [32]},
    "compile": False,
    "num_envs_per_worker": 4,
    "train_batch_size": 256,
    "min_env_steps_per_iteration": 500,
}
GRU = {"hiddens": [16], "core": "gru", "core_width": 16}
PPO_LEARNS = {**ON_POLICY, "gamma": 0.5, "lr": 3e-3, "train_batch_size": 512, "minibatch_size": 128, "num_epochs": 4}


CONSOLE = "rlrun.toys:MaskedConsole"


def test_ppo_learns_every_part_of_a_nested_action_under_a_mask() -> None:
    with Training(CONSOLE, PPO(**PPO_LEARNS), seed=1) as learning:
        before = learning.evaluate(20).mean  # about 6
        while learning.step()["env_steps"] < 1_800:
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
def test_every_policy_gradient_algorithm_trains_with_nested_actions_and_obeys_masks(
    algorithm: Any, config: Any
) -> None:
    with Training(CONSOLE, algorithm(**config), seed=1) as learning:
        results = [learning.step() for _ in range(2)]
        evaluated = learning.evaluate(3, actions="sampled")
    numbers = [value for name, value in results[-1].items() if not is_timing(name) and isinstance(value, float)]
    assert results[-1]["sgd_steps"] > 0
    assert np.isfinite(numbers).all()
    assert np.isfinite(evaluated.returns).all()


def test_a_run_with_nested_actions_resumes_bit_for_bit(tmp_path: Path) -> None:
    def rows(learning: Any) -> list[dict[str, Any]]:
        results = [learning.step()]
        return all_numbers(results)

    config = {**PPO_LEARNS, "model": {"hiddens": [16], "autoregressive": True}}
    with Training(CONSOLE, PPO(**config), seed=1) as learning:
        rows(learning)
        learning.save(tmp_path / "checkpoint")
        expected = rows(learning)
    with Training.restore(tmp_path / "checkpoint") as restored:
        assert rows(restored) == expected


def test_act_returns_a_nested_action_from_the_envs_action_space() -> None:
    env = MaskedConsole()
    with Training(CONSOLE, PPO(**PPO_LEARNS), seed=1) as learning:
        seen, _ = env.reset(seed=0)
        for _ in range(10):
            action = learning.act(seen)
            assert env.action_space.contains(action)
            seen, *_ = env.step(action)


@pytest.mark.parametrize("name", ["dqn", "r2d2", "sac", "td3", "ddpg", "qtopt", "apex"])
def test_algorithms_that_learn_action_values_refuse_nested_actions(name: str) -> None:
    algorithm = algorithm_class(name)
    with pytest.raises(UsageError, match=r"this env has Dict\("):
        algorithm(algorithm.Config()).policy(spaces_of(EnvConfig(id=CONSOLE)), 0)


class Duet(World):
    """Two agents press keys with two hands, at once or in turns; a key that the mask forbids is an error."""

    possible_agents = ("left", "right")

    def __init__(self, in_turns: bool) -> None:
        self.clock = "per_agent" if in_turns else "parallel"

    def spaces(self, agent: str) -> Spaces:
        observation = Dict({"action_mask": MultiBinary(5), "seen": Box(0, 1, (2,))})
        return Spaces(observation, Tuple([Discrete(3), Dict({"hand": MultiDiscrete([2]), "force": Box(-1, 1, (1,))})]))

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.random, self.elapsed = np.random.default_rng(seed), 0
        return self.show()

    def show(self) -> Mapping[str, Any]:
        shown = self.possible_agents if self.clock == "parallel" else [self.possible_agents[self.elapsed % 2]]
        self.masks = {agent: np.array([1, *self.random.integers(0, 2, 3), 1], np.int8) for agent in shown}
        return {
            agent: {"action_mask": mask, "seen": mask[1:3].astype(np.float32)} for agent, mask in self.masks.items()
        }

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        for agent, (key, of_hand) in actions.items():
            assert self.masks[agent][key]
            assert self.masks[agent][3 + of_hand["hand"][0]]
            assert -1 <= of_hand["force"][0] <= 1
        self.elapsed += 1
        rewards = {agent: float(key == 0) for agent, (key, _) in actions.items()}
        return WorldStep(self.show(), rewards, {}, {}, {}, self.elapsed >= 9)


@pytest.mark.parametrize("autoregressive", [False, True])
@pytest.mark.parametrize("in_turns", [False, True])
def test_agents_in_a_multi_agent_world_take_nested_actions(in_turns: bool, autoregressive: bool) -> None:
    world = {"world": f"{__name__}:Duet", "kwargs": {"in_turns": in_turns}}
    model = {"hiddens": [16], "autoregressive": autoregressive}
    with Training(world, PPO(**{**ON_POLICY, "model": model}), seed=1) as learning:
        result = learning.step()
        assert result["sgd_steps"] > 0
        assert np.isfinite(learning.evaluate(3).returns).all()
