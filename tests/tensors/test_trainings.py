"""PPO learns in the envs of real simulators, on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict
from torch import Tensor

import rlrun
from rlrun.plugin import RslRlEnv
from rlrun.toys import tensor_cartpole

pytestmark = [pytest.mark.tensors, pytest.mark.filterwarnings("default")]  # we cannot fix these packages' warnings

CONFIG = {
    "num_envs_per_worker": 64,
    "train_batch_size": 64 * 32,
    "minibatch_size": 256,
    "num_epochs": 4,
    "lr": 1e-3,
    "model": {"hiddens": [32, 32]},
}


class Pole(VecEnv):
    """CartPole with rsl_rl's interface: one number steers, and the critic has observations of its own."""

    def __init__(self, num_envs: int, device: torch.device) -> None:
        self.env = tensor_cartpole(num_envs, device, max_episode_steps=100)
        self.num_envs, self.num_actions, self.max_episode_length = num_envs, 1, 100
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.int64)
        self.device, self.cfg = device, {}
        self.observations = self.env.reset(seeds=torch.arange(num_envs))

    def get_observations(self) -> TensorDict:
        groups = {"policy": self.observations, "critic": torch.cat([self.observations] * 2, dim=1)}
        return TensorDict(groups, batch_size=[self.num_envs])

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Any]]:
        step = self.env.step((actions[:, 0] > 0).long())
        self.observations = step.observations
        dones = (step.terminateds | step.truncateds).int()
        return self.get_observations(), step.rewards, dones, {"time_outs": step.truncateds, "log": {}}


def pole(num_envs: int, device: torch.device) -> RslRlEnv:
    return RslRlEnv(Pole(num_envs, device), device, is_only_one=False)


def trained(folder: Path, env: dict[str, Any], env_steps: int, **config: Any) -> list[dict[str, Any]]:
    """Trains with a spec, like `rlrun train`; returns the results."""
    entry = {"algorithm": "ppo", "env": env, "seeds": [0], "config": {**CONFIG, **config}}
    results: list[dict[str, Any]] = []

    def watch(event: Any) -> None:
        if getattr(event, "result", None):
            results.append(dict(event.result))

    rlrun.run({"run": {**entry, "stop": {"env_steps": env_steps}}}, runs_dir=folder, executor="local", watch=watch)
    return results


def test_ppo_learns_gymnaxs_cartpole(tmp_path: Path) -> None:
    results = trained(tmp_path, {"tensors": "rlrun.plugin:gymnax_env", "kwargs": {"name": "CartPole-v1"}}, 120_000)
    assert results[0]["episode_return_mean"] < 40
    assert results[-1]["episode_return_mean"] > 100


def test_ppo_learns_to_move_fast_in_brax(tmp_path: Path) -> None:
    env = {"tensors": "rlrun.plugin:brax_env", "kwargs": {"name": "fast", "episode_length": 50}}
    results = trained(tmp_path, env, 60_000)
    # Accelerating in all 50 steps returns the sum of 0.02**2 * t (t + 1) / 2, which is 8.84. Random actions reach half.
    assert results[1]["episode_return_mean"] < 5.5
    assert 7.5 < results[-1]["episode_return_mean"] < 8.85


def test_ppo_learns_in_an_rsl_rl_vector_env_with_a_critic_that_sees_more_than_the_actor(tmp_path: Path) -> None:
    env = {"tensors": "tests.tensors.test_trainings:pole"}
    model = {**CONFIG["model"], "actor_sees": ["policy"], "shared_value": False}
    results = trained(tmp_path, env, 100_000, model=model)
    assert results[0]["episode_return_mean"] < 40
    assert results[-1]["episode_return_mean"] > 70
