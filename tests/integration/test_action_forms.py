"""Training with actions that are drawn part by part, and with actions that are described by features."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from rlrun import A2C, APPO, DQN, PG, PPO, Impala, Training
from rlrun.engine.data.action_kind import ACTION_KINDS
from rlrun.experiments.trial.results import is_timing

COMMON = {"compile": False, "num_envs_per_worker": 4, "min_env_steps_per_iteration": 500}
ON_POLICY = {**COMMON, "train_batch_size": 256}
PPO_LEARNS = {**ON_POLICY, "gamma": 0.5, "lr": 3e-3, "minibatch_size": 64, "num_epochs": 4}
IN_ORDER = {"hiddens": [16], "autoregressive": True}
EMBEDDED = {"hiddens": [16], "action_embeddings": "actions"}
GRU = {"core": "gru", "core_width": 16}


class Pairs(gymnasium.Env):
    """Pays 1 if both choices among three are equal and differ from those of the previous step; episodes have 10 steps.

    Shows nothing: a policy does not know the previous pair, so it earns most if it draws all three pairs equally often.
    """

    observation_space = Box(0, 1, (1,))
    action_space = Tuple([Discrete(3), MultiDiscrete([3])])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.elapsed, self.before = 0, -1
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        first, second = int(action[0]), int(action[1][0])
        reward = float(first == second != self.before)
        self.before = first
        self.elapsed += 1
        return np.zeros(1, np.float32), reward, False, self.elapsed == 10, {}


class Wares(gymnasium.Env):
    """Lists wares in any order, some of them sold out; pays for taking the one whose features are like the wish."""

    observation_space = Dict(
        {"actions": Box(-1, 1, (6, 2)), "action_mask": MultiBinary(6), "wish": Box(-1, 1, (2,), np.float32)}
    )
    action_space = Discrete(6)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.elapsed = 0
        return self.show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.mask[action]
        fit = self.wares @ self.wish
        reward = float(action == np.where(self.mask == 1, fit, -np.inf).argmax())
        self.elapsed += 1
        return self.show(), reward, False, self.elapsed == 10, {}

    def show(self) -> dict[str, Any]:
        self.mask = np.zeros(6, np.int8)
        self.mask[self.np_random.permutation(6)[:3]] = 1
        self.wares = self.np_random.uniform(-1, 1, (6, 2)).astype(np.float32) * self.mask[:, None]
        self.wish = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return {"actions": self.wares, "action_mask": self.mask, "wish": self.wish}


PAIRS, WARES = f"{__name__}:Pairs", f"{__name__}:Wares"
OFF_POLICY = {
    **COMMON,
    "gamma": 0.0,
    "lr": 3e-3,
    "model": EMBEDDED,
    "learning_starts": 250,
    "training_intensity": 0.25,
    "target_update_interval": 50,
    "epsilon": [[0, 1.0], [1000, 0.1]],
}

RUNS = {
    "ppo in order": (PPO, PAIRS, {**PPO_LEARNS, "model": IN_ORDER}),
    "a2c in order, with memory": (A2C, PAIRS, {**ON_POLICY, "model": {**IN_ORDER, **GRU}}),
    "pg in order, shared": (PG, PAIRS, {**ON_POLICY, "model": {**IN_ORDER, "shared_value": True}}),
    "impala in order": (Impala, PAIRS, {**ON_POLICY, "model": IN_ORDER}),
    "appo in order, against a target": (
        APPO,
        PAIRS,
        {**ON_POLICY, "model": IN_ORDER, "num_epochs": 2, "kl_coeff": 0.1},
    ),
    "appo in order, with memory": (APPO, PAIRS, {**ON_POLICY, "model": {**IN_ORDER, **GRU}, "num_epochs": 2}),
    "a2c with a list": (A2C, WARES, {**ON_POLICY, "model": EMBEDDED}),
    "impala with a list and memory": (Impala, WARES, {**ON_POLICY, "model": {**EMBEDDED, **GRU}}),
    "dqn with a list": (DQN, WARES, OFF_POLICY),
    "dqn with a list, parameter noise, filtered": (
        DQN,
        WARES,
        {**OFF_POLICY, "exploration": "parameter_noise", "normalize_observations": True},
    ),
}


@pytest.mark.parametrize(("algorithm", "env", "config"), RUNS.values(), ids=RUNS)
def test_algorithms_train_with_autoregressive_and_feature_described_actions(
    algorithm: Any, env: str, config: Any
) -> None:
    with Training(env, algorithm(**config), seed=1) as learning:
        results = [learning.step() for _ in range(2)]
        evaluated = [learning.evaluate(3, actions=actions) for actions in ACTION_KINDS]
    numbers = [value for name, value in results[-1].items() if not is_timing(name) and isinstance(value, float)]
    assert results[-1]["sgd_steps"] > 0
    assert np.isfinite(numbers).all()
    assert np.isfinite([each.returns for each in evaluated]).all()


def test_ppo_learns_the_right_action_whatever_its_position_in_the_action_list() -> None:
    with Training(WARES, PPO(**PPO_LEARNS, model=EMBEDDED), seed=1) as learning:
        while learning.step()["env_steps"] < 1_500:
            pass
        assert learning.evaluate(20).mean > 8.5  # a random allowed action is right in a third of the steps


def test_changing_pairs_of_matching_actions_are_learned_only_autoregressively() -> None:
    config = {**PPO_LEARNS, "gamma": 0.9, "entropy_coeff": 0.1}
    found = {}
    for autoregressive in (False, True):
        model = {"hiddens": [16], "autoregressive": autoregressive}
        with Training(PAIRS, PPO(**{**config, "model": model}), seed=1) as learning:
            while learning.step()["env_steps"] < 2_500:
                pass
            found[autoregressive] = learning.evaluate(50, actions="sampled").mean
    assert found[True] > 5.5  # equal probabilities of three equal pairs return 1 + 9 * 2 / 3 = 7
    assert found[False] < 3.5
