"""Runs one piece of the benchmark's work with Stable-Baselines3; `bench_ppo.py` starts it in a venv of its own.

Stable-Baselines3 is used as its users would for speed: `make_vec_env` (a `DummyVecEnv` of monitored envs), the CPU,
one thread, no logging. It knows nothing of rlrun, so that it can run where rlrun is not installed.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from typing import Any

import ale_py
import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack


class SamplingOnly(PPO):  # type: ignore[misc]  # stable_baselines3 is not type-checked
    """PPO that collects experience, with its advantages, and learns nothing."""

    def train(self) -> None:
        """Leaves the parameters as they are."""


class Iterations(BaseCallback):  # type: ignore[misc]
    """Notes the clock and the CPU time at the end of every iteration, and ends training after so many."""

    def __init__(self, iterations: int) -> None:
        super().__init__()
        self.iterations = iterations
        self.marks: list[tuple[float, float, int]] = []

    def _on_rollout_start(self) -> None:
        self.marks.append((time.perf_counter(), time.process_time(), self.num_timesteps))

    def _on_step(self) -> bool:
        return len(self.marks) <= self.iterations


class Until(BaseCallback):  # type: ignore[misc]
    """Ends training when the mean return of the last 100 episodes is reached, and says when the first result is there.

    Both are looked at as soon as a rollout is complete, before the iteration's learning: that is when
    Stable-Baselines3 prints its table.
    """

    def __init__(self, wanted: float) -> None:
        super().__init__()
        self.wanted = wanted
        self.is_reached = False

    def _on_step(self) -> bool:
        return not self.is_reached

    def _on_rollout_end(self) -> None:
        returns = [episode["r"] for episode in self.model.ep_info_buffer]
        mean = float(np.mean(returns)) if returns else float("nan")
        if self.num_timesteps == self.model.n_steps * self.model.n_envs:
            print(f"first result: {self.num_timesteps} env steps, return {mean:.1f}", flush=True)
        self.is_reached = len(returns) == 100 and mean >= self.wanted


def make_envs(work: dict[str, Any]) -> VecEnv:
    if work["env"].startswith("ALE/"):
        gymnasium.register_envs(ale_py)
        return VecFrameStack(make_atari_env(work["env"], n_envs=work["num_envs"], seed=work["seed"]), n_stack=4)
    return make_vec_env(work["env"], n_envs=work["num_envs"], seed=work["seed"])


def make_model(work: dict[str, Any], algorithm: type[PPO]) -> PPO:
    hiddens = work["hiddens"]
    dense = {"net_arch": {"pi": hiddens, "vf": hiddens}, "activation_fn": torch.nn.Tanh}
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


def measured(work: dict[str, Any]) -> dict[str, Any]:
    """Runs warm-up and measured iterations, and returns the time and env steps of the measured ones."""
    warm_up, iterations = work["warm_up"], work["iterations"]
    clock = Iterations(warm_up + iterations)
    model = make_model(work, SamplingOnly if work["kind"] == "sampling" else PPO)
    # One iteration more than is counted: its beginning is the end of the last one that is.
    model.learn((warm_up + iterations + 1) * work["fragment"] * work["num_envs"], callback=clock)
    first, last = clock.marks[warm_up], clock.marks[warm_up + iterations]
    seconds, cpu_seconds, env_steps = (after - before for before, after in zip(first, last, strict=True))
    return {"env_steps": env_steps, "seconds": seconds, "cpu_seconds": cpu_seconds}


def solved(work: dict[str, Any]) -> dict[str, Any]:
    """Learns until the return is reached; returns the env steps that took."""
    until = Until(work["wanted_return"])
    model = make_model(work, PPO)
    model.learn(work["max_env_steps"], callback=until)
    return {"env_steps": model.num_timesteps, "is_reached": until.is_reached}


def versions() -> dict[str, str]:
    return {
        "stable-baselines3": stable_baselines3.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "gymnasium": gymnasium.__version__,
        "numpy": np.__version__,
    }


def main() -> None:
    work = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    if work["kind"] == "versions":
        print(json.dumps(versions()))
    else:
        print(json.dumps(solved(work) if work["kind"] == "solve" else measured(work)))


if __name__ == "__main__":
    main()
