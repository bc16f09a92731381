"""Training where some actions are forbidden: an env that refuses them never refuses one, and policies learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

from rlrun import A2C, APPO, DQN, PG, PPO, R2D2, SAC, Impala, Training
from rlrun.experiments.trial.results import is_timing
from tests.results import all_numbers

GRID = {"id": "rlrun.toys:MaskedGrid", "kwargs": {"size": 3}}
MATCH = {"id": "rlrun.toys:MaskedMatch", "kwargs": {"num_actions": 12, "num_allowed": 4}}
BEST_IN_GRID = -9 / 4
COMMON = {"model": {"hiddens": [32]}, "compile": False, "num_envs_per_worker": 4}
ON_POLICY = {**COMMON, "train_batch_size": 256, "min_env_steps_per_iteration": 500}
OFF_POLICY = {
    **COMMON,
    "min_env_steps_per_iteration": 500,
    "learning_starts": 500,
    "training_intensity": 0.1,
    "rollout_fragment_length": 8,
    "minibatch_size": 32,
}
Q = {**OFF_POLICY, "gamma": 0.9, "lr": 2e-3, "target_update_interval": 50, "epsilon": [[0, 1.0], [2000, 0.1]]}
PPO_LEARNS = {**ON_POLICY, "gamma": 0.9, "lr": 3e-3, "train_batch_size": 512, "minibatch_size": 128, "num_epochs": 4}

LEARNS = {
    "ppo": (PPO, PPO_LEARNS),
    "dqn": (DQN, Q),
    "sac": (SAC, {**OFF_POLICY, "gamma": 0.9, "lr": 2e-3, "critic_lr": 2e-3, "alpha_lr": 2e-3, "initial_alpha": 0.1}),
}


@pytest.mark.parametrize(("algorithm", "config"), LEARNS.values(), ids=LEARNS)
def test_algorithms_find_the_shortest_path_in_4000_steps_while_avoiding_forbidden_actions(
    algorithm: Any, config: Any
) -> None:
    with Training(GRID, algorithm(**config), seed=1) as learning:
        while learning.step()["env_steps"] < 4_000:
            pass
        likeliest, explored = learning.evaluate(100), learning.evaluate(100, actions="sampled")
    assert likeliest.mean == pytest.approx(BEST_IN_GRID, abs=0.5)
    assert likeliest.min >= -4
    assert explored.min < 0


GRU = {"hiddens": [16], "core": "gru", "core_width": 16}
SHORT = {
    "a2c": (A2C, ON_POLICY),
    "pg": (PG, ON_POLICY),
    "ppo with a shared trunk, filters and a KL bound": (
        PPO,
        {
            **PPO_LEARNS,
            "model": {"hiddens": [16], "shared_value": True},
            "normalize_observations": True,
            "early_stop_kl": 0.01,
            "entropy_coeff": 0.01,
        },
    ),
    "impala": (Impala, ON_POLICY),
    "appo": (APPO, ON_POLICY),
    "double dueling c51": (DQN, {**Q, "dueling": True, "distribution": "c51", "v_min": -30.0, "v_max": 0.0}),
    "quantile, not double": (DQN, {**Q, "double": False, "distribution": "quantile", "num_atoms": 11}),
    "noisy, 3 steps, prioritized": (DQN, {**Q, "noisy": True, "n_step": 3, "replay": {"sampling": "prioritized"}}),
    "soft q": (DQN, {**Q, "exploration": "soft_q"}),
    "parameter noise": (DQN, {**Q, "exploration": "parameter_noise"}),
    "filtered": (DQN, {**Q, "normalize_observations": True}),
    "r2d2": (
        R2D2,
        {
            **OFF_POLICY,
            "model": {"hiddens": [16], "core_width": 16},
            "replay": {"capacity": 3000, "length": 8, "burn_in": 4, "stride": 4},
            "training_intensity": 0.02,
        },
    ),
    "sac, filtered, 3 steps": (SAC, {**OFF_POLICY, "normalize_observations": True, "n_step": 3}),
    "a2c with memory": (A2C, {**ON_POLICY, "model": GRU}),
    "pg with memory": (PG, {**ON_POLICY, "model": GRU}),
    "impala with memory": (Impala, {**ON_POLICY, "model": GRU}),
    "appo with memory": (APPO, {**ON_POLICY, "model": GRU, "num_epochs": 2}),
    "ppo with attention": (PPO, {**PPO_LEARNS, "num_epochs": 1, "model": {**GRU, "core": "gtrxl"}}),
    "sac with memory": (
        SAC,
        {
            **OFF_POLICY,
            "model": GRU,
            "replay": {"capacity": 3000, "length": 8, "burn_in": 4, "stride": 4},
            "training_intensity": 0.02,
        },
    ),
}


PAIRED = ("pg", "quantile, not double", "filtered", "pg with memory", "impala with memory")
"""Kinds whose parts are all covered by other kinds: only `make regress` runs them."""


@pytest.mark.parametrize(
    ("algorithm", "config"),
    [pytest.param(*SHORT[name], id=name, marks=[pytest.mark.regress] * (name in PAIRED)) for name in SHORT],
)
def test_no_algorithm_takes_a_forbidden_action(algorithm: Any, config: Any) -> None:
    with Training(GRID, algorithm(**config), seed=1) as learning:
        results = [learning.step() for _ in range(2)]
        evaluated = learning.evaluate(5, actions="sampled")
    assert results[-1]["sgd_steps"] > 0
    numbers = [value for name, value in results[-1].items() if not is_timing(name) and isinstance(value, float)]
    assert np.isfinite(numbers).all()
    assert np.isfinite(evaluated.returns).all()


@pytest.mark.parametrize(("algorithm", "config"), [(PPO, PPO_LEARNS), (DQN, Q), (SAC, LEARNS["sac"][1])])
def test_a_masked_run_is_resumed_bit_for_bit(algorithm: Any, config: Any, tmp_path: Path) -> None:
    def rows(learning: Any) -> list[dict[str, Any]]:
        results = (learning.step() for _ in range(2))
        return all_numbers(results)

    with Training(MATCH, algorithm(**config), seed=1) as learning:
        rows(learning)
        learning.save(tmp_path / "checkpoint")
        expected = rows(learning)
    with Training.restore(tmp_path / "checkpoint") as restored:
        assert rows(restored) == expected


class Locks(gymnasium.Env):
    """Shows a mask over two choices of 3 and 4, and other parts; pays 1 for each first allowed action."""

    action_space = MultiDiscrete([3, 4])
    observation_space = Dict(
        {
            "action_mask": Box(0, 1, (7,), np.int8),
            "elapsed": Box(0, 1, (1,)),
            "copy": Dict({"of_the_mask": MultiBinary(7)}),
        }
    )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.elapsed = 0
        return self.show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        first, second = self.mask[:3], self.mask[3:]
        assert first[action[0]]
        assert second[action[1]]
        self.elapsed += 1
        reward = float(action[0] == first.argmax()) + float(action[1] == second.argmax())
        return self.show(), reward, False, self.elapsed == 10, {}

    def show(self) -> dict[str, Any]:
        self.mask = self.np_random.integers(0, 2, 7, np.int8)
        self.mask[self.np_random.integers(3)] = 1
        self.mask[3 + self.np_random.integers(4)] = 1
        elapsed = np.array([self.elapsed / 10], np.float32)
        return {"action_mask": self.mask, "elapsed": elapsed, "copy": {"of_the_mask": self.mask}}


def test_ppo_learns_with_a_mask_per_action_part_and_several_observations() -> None:
    with Training(f"{__name__}:Locks", PPO(**PPO_LEARNS), seed=1) as learning:
        while learning.step()["env_steps"] < 3_500:
            pass
        assert learning.evaluate(20).mean > 18.5  # the best return is 20; random allowed actions return about 12


def test_act_takes_an_env_observation_and_returns_an_allowed_action() -> None:
    with Training(MATCH, DQN(**Q), seed=1) as learning:
        mask = np.zeros(12, np.int8)
        for allowed in range(12):
            only = {"observation": 0, "action_mask": np.where(np.arange(12) == allowed, 1, mask)}
            assert learning.act(only, actions="greedy") == allowed
            assert learning.act(only, actions="sampled") == allowed
