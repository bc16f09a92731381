"""Runs augmented random search with sb3-contrib; `bench_evolution.py` starts it in the venv of the peers."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
from sb3_contrib import ARS
from stable_baselines3.common.env_util import make_vec_env


def measured(work: dict[str, Any]) -> dict[str, Any]:
    """Runs warm-up and measured generations, and returns the time and env steps of the measured ones."""
    hiddens = list(work["hiddens"])
    model = ARS(
        "MlpPolicy" if hiddens else "LinearPolicy",
        make_vec_env(work["env"], n_envs=1, seed=work["seed"]),
        n_delta=work["num_pairs"],
        delta_std=0.05,
        learning_rate=0.02,
        policy_kwargs={"net_arch": hiddens} if hiddens else None,
        seed=work["seed"],
        device="cpu",
        verbose=0,
    )
    marks = []
    for _ in range(work["warm_up"] + work["iterations"] + 1):
        marks.append((time.perf_counter(), time.process_time(), model.num_timesteps))
        model.learn(1, reset_num_timesteps=False)  # a generation, since it takes more steps than that
    first, last = marks[work["warm_up"]], marks[-1]
    seconds, cpu_seconds, env_steps = (after - before for before, after in zip(first, last, strict=True))
    return {"env_steps": env_steps, "seconds": seconds, "cpu_seconds": cpu_seconds}


def main() -> None:
    torch.set_num_threads(1)
    print(json.dumps(measured(json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
