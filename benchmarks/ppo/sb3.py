"""The side of Stable-Baselines3 and SBX in the PPO benchmark; `run.py` starts it in their venv.

It uses Stable-Baselines3 as a user who wants speed would: `make_vec_env` (a `DummyVecEnv` of monitored envs), the CPU,
one thread, no logging. SBX does the same in JAX, with the same envs and callbacks. The module does not import rlrun, so
it can run in a venv without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import ale_py
import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack

from benchmarks.peers import Measurement, answer, between, mark, on_one_cpu


class SamplingOnly(PPO):  # type: ignore[misc]  # stable_baselines3 is not type-checked
    """PPO that collects experience and computes advantages, but does not learn."""

    def train(self) -> None:
        """Leaves the parameters unchanged."""


class Iterations(BaseCallback):  # type: ignore[misc]
    """Records the clock and the CPU time at the end of every iteration; ends training after some number of them."""

    def __init__(self, iterations: int) -> None:
        super().__init__()
        self.iterations = iterations
        self.marks: list[Measurement] = []

    def _on_rollout_start(self) -> None:
        self.marks.append(mark(env_steps=self.num_timesteps))

    def _on_step(self) -> bool:
        return len(self.marks) <= self.iterations


class Until(BaseCallback):  # type: ignore[misc]
    """Ends training when the last 100 episodes reach a mean return, and reports when the first result is available.

    Both are checked as soon as a rollout is complete, before the iteration's learning: that is when Stable-Baselines3
    prints its table.
    """

    def __init__(self, wanted: float) -> None:
        super().__init__()
        self.wanted = wanted
        self.is_reached = False
        self.mean = float("nan")

    def _on_step(self) -> bool:
        return not self.is_reached

    def _on_rollout_end(self) -> None:
        returns = [episode["r"] for episode in self.model.ep_info_buffer]
        self.mean = float(np.mean(returns)) if returns else float("nan")
        if self.num_timesteps == self.model.n_steps * self.model.n_envs:
            print(f"first result: {self.num_timesteps} env steps, return {self.mean:.1f}", flush=True)
        self.is_reached = len(returns) == 100 and self.mean >= self.wanted


def make_envs(work: Measurement) -> VecEnv:
    """Returns the envs for the given work."""
    if work["env"].startswith("ALE/"):
        gymnasium.register_envs(ale_py)
        return VecFrameStack(make_atari_env(work["env"], n_envs=work["num_envs"], seed=work["seed"]), n_stack=4)
    return make_vec_env(work["env"], n_envs=work["num_envs"], seed=work["seed"])


def make_model(work: Measurement, algorithm: type[PPO]) -> PPO:
    """Returns the model for the given work."""
    hiddens = work["hiddens"]
    dense: dict[str, Any] = {"net_arch": {"pi": hiddens, "vf": hiddens}}
    if algorithm.__module__.startswith("stable_baselines3"):  # SBX already uses flax's tanh by default
        dense["activation_fn"] = torch.nn.Tanh
    return algorithm(
        "MlpPolicy" if hiddens else "CnnPolicy",
        make_envs(work),
        learning_rate=work["lr"],
        n_steps=work["fragment"],
        batch_size=work["minibatch"],
        n_epochs=work["epochs"],
        gamma=work["gamma"],
        gae_lambda=work["gae_lambda"],
        policy_kwargs=dense if hiddens else None,
        seed=work["seed"],
        device="cpu",
        verbose=0,
    )


def learned(model: Any, work: Measurement) -> Measurement:
    """Runs warm-up and measured iterations of an on-policy algorithm; returns time and env steps of the latter."""
    warm_up, iterations = work["warm_up"], work["iterations"]
    clock = Iterations(warm_up + iterations)
    # Runs one more iteration than it counts, because its start marks the end of the last counted iteration.
    model.learn((warm_up + iterations + 1) * work["fragment"] * work["num_envs"], callback=clock)
    return between(clock.marks[warm_up], clock.marks[warm_up + iterations])


def solved(work: Measurement) -> Measurement:
    """Learns until the return is reached; returns the number of env steps, and the return."""
    until = Until(work["wanted_return"])
    model = make_model(work, PPO)
    model.learn(work["max_env_steps"], callback=until)
    return {"env_steps": model.num_timesteps, "episode_return": until.mean}


def measured(work: Measurement) -> Measurement:
    """Runs the given work, and returns the measurements."""
    if work["kind"] == "solve":
        return solved(work)
    if work["kind"] == "sampling":
        return learned(make_model(work, SamplingOnly), work)
    if work["library"] == "sbx":
        on_one_cpu()
    return learned(make_model(work, import_module(work["library"]).PPO), work)


if __name__ == "__main__":
    answer(measured)
