"""NumPy kernels cover all operations of updates, and agree with torch, for dense and recurrent networks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import Tensor, nn

import rlrun
from rlrun.engine.learner.executors import execution
from rlrun.engine.learner.executors.c_update import in_c
from rlrun.engine.learner.executors.numpy_update import in_numpy
from rlrun.engine.learner.executors.update_executor import UpdateExecutor
from rlrun.engine.nn.model_config import ModelConfig

ON_POLICY = {"num_envs_per_worker": 4, "train_batch_size": 64, "min_env_steps_per_iteration": 0}
OFF_POLICY = {"learning_starts": 32, "min_env_steps_per_iteration": 60}

RECURRENT = {**ON_POLICY, "minibatch_size": 32, "num_epochs": 10, "seq_len": 4}
SEQUENCES = {
    **OFF_POLICY,
    "minibatch_size": 8,
    "training_intensity": 0.5,
    "replay": {"burn_in": 2, "length": 3, "stride": 1},
}
MODEL_BASED = {
    "training_intensity": 0.5,
    "rollouts_per_env_step": 2,
    "dynamics": {"num_members": 2, "num_elites": 2, "hiddens": [16], "minibatch_size": 32, "max_epochs": 4},
}
ENSEMBLE = {
    "num_critics": 3,
    "num_target_critics": 2,
    "actor_objective": "mean",
    "model": {"hiddens": [16], "critic_normalization": "layer"},
}
SMALL = {"hiddens": [16], "core_width": 8}
CURIOUS = {"hiddens": [16], "features": 8}


class Net(nn.Module):
    """A policy and a value with layer norms and GELUs."""

    def __init__(self, observation_space: Any, num_outputs: int, model: ModelConfig) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, 16), nn.LayerNorm(16), nn.GELU())
        self.policy, self.value = nn.Linear(16, num_outputs), nn.Linear(16, 1)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        features = self.trunk(observations)
        return self.policy(features), self.value(features).squeeze(-1)


KINDS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "ppo": ("ppo", "CartPole-v1", {**ON_POLICY, "minibatch_size": 16, "num_epochs": 5}),
    "ppo with a Gaussian": ("ppo", "Pendulum-v1", {**ON_POLICY, "minibatch_size": 16, "num_epochs": 5}),
    "ppo with rnd": ("ppo", "CartPole-v1", {**ON_POLICY, "minibatch_size": 16, "num_epochs": 5, "curiosity": CURIOUS}),
    "ppo with icm": (
        "ppo",
        "CartPole-v1",
        {**ON_POLICY, "minibatch_size": 16, "num_epochs": 5, "curiosity": {**CURIOUS, "kind": "icm"}},
    ),
    "ppo with two norms and a penalty": (
        "ppo",
        "Pendulum-v1",
        {
            **ON_POLICY,
            "minibatch_size": 16,
            "num_epochs": 5,
            "separate_grad_norms": True,
            "kl_penalty": {},
            "model": {"shared_value": False},
        },
    ),
    "ppo with an adaptive learning rate": (
        "ppo",
        "CartPole-v1",
        {**ON_POLICY, "minibatch_size": 16, "num_epochs": 5, "lr": {"adaptive_kl": 0.001}},
    ),
    "a2c": ("a2c", "CartPole-v1", {"num_envs_per_worker": 4, "min_env_steps_per_iteration": 400}),
    "dqn": ("dqn", "CartPole-v1", OFF_POLICY),
    "dqn with a squared error": ("dqn", "CartPole-v1", {**OFF_POLICY, "huber": None, "model": {"hiddens": [16]}}),
    "dqn with a small bound": ("dqn", "CartPole-v1", {**OFF_POLICY, "huber": 0.1, "model": {"hiddens": [16]}}),
    "iqn": ("iqn", "CartPole-v1", {**OFF_POLICY, "num_atoms": 4, "model": {"hiddens": [16, 16]}}),
    "dqn with munchausen": ("dqn", "CartPole-v1", {**OFF_POLICY, "munchausen": {}}),
    "sac": ("sac", "Pendulum-v1", OFF_POLICY),
    "sac with an ensemble": ("sac", "CartPole-v1", {**OFF_POLICY, **ENSEMBLE}),
    "tqc": ("tqc", "Pendulum-v1", {**OFF_POLICY, "num_critics": 2, "num_quantiles": 5, "model": {"hiddens": [16]}}),
    "droq": (
        "droq",
        "Pendulum-v1",
        {**OFF_POLICY, "training_intensity": 1.0, "policy_delay": 2, "model": {"hiddens": [16]}},
    ),
    "crossq": (
        "crossq",
        "Pendulum-v1",
        {**OFF_POLICY, "lr": 1e-4, "critic_lr": 1e-4, "model": {"hiddens": [16], "critic_hiddens": [24]}},
    ),
    "simba": ("simba", "Pendulum-v1", {**OFF_POLICY, "lr": 1e-3, "model": {"hiddens": [8], "critic_hiddens": [8, 8]}}),
    "xqc": (
        "xqc",
        "Pendulum-v1",
        {**OFF_POLICY, "training_intensity": 1.0, "num_bins": 5, "model": {"hiddens": [8], "critic_hiddens": [8, 8]}},
    ),
    "flashsac": (
        "flashsac",
        "Pendulum-v1",
        {**OFF_POLICY, "minibatch_size": 64, "num_bins": 5, "model": {"hiddens": [4], "critic_hiddens": [4, 4]}},
    ),
    "cql": ("cql", "Pendulum-v1", {**OFF_POLICY, "num_sampled_actions": 2, "model": {"hiddens": [16]}}),
    "crr": ("crr", "Pendulum-v1", {**OFF_POLICY, "model": {"hiddens": [16]}}),
    "bcq": ("bcq", "CartPole-v1", {**OFF_POLICY, "model": {"hiddens": [16]}}),
    "td3": ("td3", "Pendulum-v1", OFF_POLICY),
    "mbpo": ("mbpo", "Pendulum-v1", {**OFF_POLICY, **MODEL_BASED, "model": {"hiddens": [32]}}),
    "ppo with an lstm": ("ppo", "CartPole-v1", {**RECURRENT, "model": {**SMALL, "core": "lstm"}}),
    "ppo with a gru": ("ppo", "Pendulum-v1", {**RECURRENT, "model": {**SMALL, "core": "gru"}}),
    "ppo with gtrxl": (
        "ppo",
        "CartPole-v1",
        {**RECURRENT, "model": {**SMALL, "core": "gtrxl", "gtrxl": {"memory_len": 2}}},
    ),
    "ppo with a net of one's own": (
        "ppo",
        "CartPole-v1",
        {**ON_POLICY, "minibatch_size": 16, "num_epochs": 5, "model": {"module": f"{__name__}:Net"}},
    ),
    "sac with a gru": ("sac", "Pendulum-v1", {**SEQUENCES, "model": {**SMALL, "core": "gru"}}),
    "alphazero with masks": (
        "alphazero",
        {"world": "rlrun.toys:TicTacToe"},
        {**OFF_POLICY, "simulations": 4, "model": {"hiddens": [16]}},
    ),
    "r2d2": ("r2d2", "CartPole-v1", {**SEQUENCES, "model": {**SMALL, "core": "lstm"}}),
}


def before_and_after(
    kind: str, update_executor: UpdateExecutor
) -> tuple[NDArray[np.float32], NDArray[np.float32], int]:
    """Returns the parameters before and after at least 20 updates, and how many there were."""
    name, env, config = KINDS[kind]
    family = {
        "ppo": rlrun.PPO,
        "a2c": rlrun.A2C,
        "alphazero": rlrun.AlphaZero,
        "dqn": rlrun.DQN,
        "iqn": rlrun.IQN,
        "sac": rlrun.SAC,
        "td3": rlrun.TD3,
        "mbpo": rlrun.MBPO,
        "bcq": rlrun.BCQ,
        "cql": rlrun.CQL,
        "crr": rlrun.CRR,
        "crossq": rlrun.CrossQ,
        "droq": rlrun.DroQ,
        "simba": rlrun.SimBa,
        "tqc": rlrun.TQC,
        "xqc": rlrun.XQC,
        "flashsac": rlrun.FlashSAC,
        "r2d2": rlrun.R2D2,
    }[name]
    with rlrun.Training(env, family(**config), seed=1, announce=pytest.fail) as training:  # all operations have kernels
        training.update_executor = update_executor
        learner = training.running.trainee.learner
        first = learner.flat()
        while learner.sgd_steps < 20:
            training.step()
        return first, learner.flat(), learner.sgd_steps


@cache
def after_eager_updates(kind: str) -> NDArray[np.float32]:
    """Returns the parameters after the same updates in PyTorch, computed once for both kinds of kernels."""
    return before_and_after(kind, "eager")[1]


VARIED = {
    "ppo with rnd",
    "ppo with two norms and a penalty",
    "ppo with an adaptive learning rate",
    "ppo with a gru",
    "dqn with a squared error",
    "sac with an ensemble",
    "sac with a gru",
    "simba",
    "crr",
    "bcq",
    "td3",
}
"""Kinds whose operations other kinds also have: `make regress` runs their NumPy kernels, all tests those in C."""


@pytest.mark.parametrize(
    ("kind", "update_executor"),
    [
        pytest.param(kind, executor, marks=[pytest.mark.regress] * (executor == "numpy" and kind in VARIED))
        for kind in KINDS
        for executor in ("numpy", "c")
    ],
)
def test_numpy_and_c_updates_agree_with_eager_updates_to_1e_5_over_20_updates(
    kind: str, update_executor: UpdateExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []

    def counted(translate: Callable[..., object], *given: object) -> object:
        made.append(translate(*given))
        return made[-1]

    monkeypatch.setattr(execution, "in_numpy", partial(counted, in_numpy))
    monkeypatch.setattr(execution, "in_c", partial(counted, in_c))
    first, ours, steps = before_and_after(kind, update_executor)
    theirs = after_eager_updates(kind)
    assert {type(each).__name__ for each in made} == {"CUpdate" if update_executor == "c" else "NumpyUpdate"}
    assert 20 <= steps < 60
    assert np.abs(ours - first).max() > 1e-3
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("update_executor", ["numpy", "c"])
def test_updates_with_the_same_seed_are_identical_bit_for_bit(update_executor: UpdateExecutor) -> None:
    (_, one, _), (_, other, _) = (before_and_after("ppo", update_executor) for _ in range(2))
    np.testing.assert_array_equal(one, other)
