"""The side of Stable-Baselines3 and SBX in the off-policy benchmark; `run.py` starts it in their venv.

It uses Stable-Baselines3 as a user who wants speed would: `make_vec_env` (a `DummyVecEnv` of monitored envs), the CPU,
one thread, no logging. SBX does the same in JAX, with the same envs and callbacks. The module does not import rlrun, so
it can run in a venv without it.
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from benchmarks.peers import Measurement, answer, between, mark, on_one_cpu

ENDLESS = 1_000_000_000


class Window(BaseCallback):  # type: ignore[misc]  # stable_baselines3 is not type-checked
    """Records clocks, env steps and updates at the start of the window, and ends training at its end."""

    def __init__(self, work: Measurement) -> None:
        super().__init__()
        self.work = work
        self.begins_at: float | None = None
        self.marks: list[Measurement] = []

    def _on_step(self) -> bool:
        if self.model._n_updates == 0:  # the warm-up starts after the first update, which SBX compiles
            return True
        self.begins_at = self.begins_at or time.perf_counter() + self.work["warm_up_s"]
        next_mark = self.marks[0]["seconds"] + self.work["window_s"] if self.marks else self.begins_at
        if time.perf_counter() >= next_mark:
            self.marks.append(mark(env_steps=self.num_timesteps, updates=self.model._n_updates))
        return len(self.marks) < 2


def make_model(work: Measurement) -> Any:
    """Returns a model with the same network, batch size and ratio of updates to env steps as rlrun."""
    if work["library"] == "sbx":
        on_one_cpu()
    kind = getattr(import_module(work["library"]), work["algorithm"].upper())
    # One update follows every `1 / intensity` env steps; SB3 counts a step of all envs as one.
    steps = max(round(1 / work["training_intensity"] / work["num_envs"]), 1)
    settings: dict[str, Any] = {
        "learning_rate": work["lr"],
        "buffer_size": work["capacity"],
        "learning_starts": work["learning_starts"],
        "batch_size": work["batch"],
        "gamma": work["gamma"],
        "train_freq": steps,
        "gradient_steps": round(work["training_intensity"] * steps * work["num_envs"]),
        "policy_kwargs": {"net_arch": work["hiddens"]},
    }
    if work["algorithm"] == "dqn":
        settings |= {
            "target_update_interval": work["target_interval_steps"],
            "exploration_initial_eps": 0.05,
            "exploration_final_eps": 0.05,
        }
    else:
        settings |= {"tau": work["tau"]}
    envs = make_vec_env(work["env"], n_envs=work["num_envs"], seed=work["seed"])
    return kind("MlpPolicy", envs, seed=work["seed"], device="cpu", verbose=0, **settings)


def measured(work: Measurement) -> Measurement:
    """Trains through the warm-up and the window, and returns the measurements of the window."""
    window = Window(work)
    make_model(work).learn(ENDLESS, callback=window)
    return between(*window.marks)


if __name__ == "__main__":
    answer(measured)
