"""Runs one piece of recurrent PPO with sb3-contrib; `bench_recurrent.py` starts it in the venv of the peers.

sb3-contrib is used as its users would for speed: `make_vec_env`, the CPU, one thread, no logging.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import gymnasium
import numpy as np
import torch
from bench_ppo_sb3 import Iterations
from gymnasium.wrappers import TransformObservation
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.env_util import make_vec_env


def cartpole_positions(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Hides both velocities, as rlrun's `PartialView` does with `numbers: [0, 2]`."""
    space = env.observation_space
    shown = gymnasium.spaces.Box(space.low[[0, 2]], space.high[[0, 2]], dtype=np.float32)
    return TransformObservation(env, lambda observation: observation[[0, 2]], shown)


def measured(work: dict[str, Any]) -> dict[str, Any]:
    """Runs warm-up and measured iterations, and returns the time and env steps of the measured ones."""
    warm_up, iterations, width = work["warm_up"], work["iterations"], work["core_width"]
    clock = Iterations(warm_up + iterations)
    model = RecurrentPPO(
        "MlpLstmPolicy",
        make_vec_env(work["env"], n_envs=work["num_envs"], seed=work["seed"], wrapper_class=cartpole_positions),
        learning_rate=work["lr"],
        n_steps=work["fragment"],
        batch_size=work["minibatch"],
        n_epochs=work["epochs"],
        gamma=work["gamma"],
        gae_lambda=work["gae_lambda"],
        policy_kwargs={
            "lstm_hidden_size": width,
            "net_arch": {"pi": work["hiddens"], "vf": work["hiddens"]},
            "activation_fn": torch.nn.Tanh,
        },
        seed=work["seed"],
        device="cpu",
        verbose=0,
    )
    # One iteration more than is counted: its beginning is the end of the last one that is.
    model.learn((warm_up + iterations + 1) * work["fragment"] * work["num_envs"], callback=clock)
    first, last = clock.marks[warm_up], clock.marks[warm_up + iterations]
    seconds, cpu_seconds, env_steps = (after - before for before, after in zip(first, last, strict=True))
    return {"env_steps": env_steps, "seconds": seconds, "cpu_seconds": cpu_seconds}


def main() -> None:
    torch.set_num_threads(1)
    print(json.dumps(measured(json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
