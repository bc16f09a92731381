"""Runs of 10,000 env steps without a forbidden action, in worlds that raise an error at the first one.

They cover memory, replay buffers across episode ends, several learners and workers, and actions with several parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlrun import A2C, APPO, DDPPO, DQN, PPO, R2D2, SAC, Apex, Impala, Training
from rlrun.engine.data.action_kind import ACTION_KINDS

GRID = {"id": "rlrun.toys:MaskedGrid", "kwargs": {"size": 3}}
MATCH = {"id": "rlrun.toys:MaskedMatch", "kwargs": {"num_actions": 12, "num_allowed": 4}}
CONSOLE = "rlrun.toys:MaskedConsole"
ENV_STEPS = 10_000

COMMON = {"compile": False, "num_envs_per_worker": 4, "min_env_steps_per_iteration": 1000}
ON_POLICY = {**COMMON, "train_batch_size": 256, "model": {"hiddens": [16]}}
EPOCHS = {**ON_POLICY, "minibatch_size": 64, "num_epochs": 2}
OFF_POLICY = {
    **COMMON,
    "model": {"hiddens": [16]},
    "learning_starts": 1000,
    "training_intensity": 0.05,
    "rollout_fragment_length": 8,
    "minibatch_size": 32,
}
SEQUENCES = {**OFF_POLICY, "replay": {"capacity": 3000, "length": 8, "burn_in": 4, "stride": 4}}
LSTM = {"hiddens": [16], "core": "lstm", "core_width": 16}
GRU = {"hiddens": [16], "core": "gru", "core_width": 16}
RAINBOW = {
    **OFF_POLICY,
    "dueling": True,
    "noisy": True,
    "n_step": 3,
    "distribution": "c51",
    "v_min": -30.0,
    "v_max": 0.0,
    "replay": {"capacity": 3000, "sampling": "prioritized"},
}
RUNS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "a2c": (A2C, GRID, ON_POLICY),
    "a2c, gru": (A2C, GRID, {**ON_POLICY, "model": GRU}),
    "impala": (Impala, GRID, ON_POLICY),
    "impala, lstm": (Impala, GRID, {**ON_POLICY, "model": LSTM}),
    "impala, gru, two learners": (Impala, GRID, {**ON_POLICY, "model": GRU, "num_learners": 2}),
    "appo": (APPO, GRID, {**ON_POLICY, "num_epochs": 2}),
    "appo, gru": (APPO, GRID, {**ON_POLICY, "num_epochs": 2, "model": GRU}),
    "ppo, lstm": (PPO, GRID, {**EPOCHS, "model": LSTM}),
    "ppo, lstm, two learners": (PPO, GRID, {**EPOCHS, "model": LSTM, "num_learners": 2}),
    "ppo, two workers, the env's method": (PPO, MATCH, {**EPOCHS, "num_workers": 2}),
    "ddppo, gru, two workers that learn": (DDPPO, GRID, {**EPOCHS, "model": GRU, "num_workers": 2}),
    "r2d2": (R2D2, GRID, {**SEQUENCES, "model": {"hiddens": [16], "core_width": 16}}),
    "rainbow": (DQN, GRID, RAINBOW),
    "apex, the env's method": (
        Apex,
        MATCH,
        {"compile": False, "num_workers": 2, "model": {"hiddens": [16]}, "learning_starts": 1000},
    ),
    "sac": (SAC, GRID, OFF_POLICY),
    "sac, gru": (SAC, GRID, {**SEQUENCES, "model": GRU}),
    "sac, the env's method": (SAC, MATCH, {**OFF_POLICY, "n_step": 3}),
    "a2c, several parts": (A2C, CONSOLE, ON_POLICY),
    "ppo, several parts in order, lstm": (PPO, CONSOLE, {**EPOCHS, "model": {**LSTM, "autoregressive": True}}),
    "appo, several parts in order, gru": (APPO, CONSOLE, {**ON_POLICY, "model": {**GRU, "autoregressive": True}}),
    "impala, several parts, lstm": (Impala, CONSOLE, {**ON_POLICY, "model": LSTM}),
}


@pytest.mark.regress
@pytest.mark.parametrize(("algorithm", "env", "config"), RUNS.values(), ids=RUNS)
def test_no_algorithm_takes_a_forbidden_action_while_training_or_evaluating(
    algorithm: Any, env: Any, config: dict[str, Any]
) -> None:
    with Training(env, algorithm(**config), seed=1) as learning:
        result = learning.step()
        while result["env_steps"] < ENV_STEPS:
            result = learning.step()
        evaluated = [learning.evaluate(20, actions=actions) for actions in ACTION_KINDS]
    print(f"env_steps {result['env_steps']}, sgd_steps {result['sgd_steps']}, forbidden 0")
    assert result["sgd_steps"] > 0
    assert np.isfinite([each.returns for each in evaluated]).all()
