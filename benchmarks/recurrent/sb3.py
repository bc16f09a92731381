"""sb3-contrib's side of the recurrent benchmark; `run.py` starts it in the venv of Stable-Baselines3.

It uses sb3-contrib as a user who wants speed would: `make_vec_env`, the CPU, one thread, no logging.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.wrappers import TransformObservation
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.env_util import make_vec_env

from benchmarks.peers import Measurement, answer
from benchmarks.ppo.sb3 import learned


def cartpole_positions(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Hides both velocities, as rlrun's `PartialView` does with `numbers: [0, 2]`."""
    space = env.observation_space
    shown = gymnasium.spaces.Box(space.low[[0, 2]], space.high[[0, 2]], dtype=np.float32)
    return TransformObservation(env, lambda observation: observation[[0, 2]], shown)


def measured(work: Measurement) -> Measurement:
    """Runs the warm-up and the measured iterations, and returns the time and env steps of the latter."""
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
            "lstm_hidden_size": work["core_width"],
            "net_arch": {"pi": work["hiddens"], "vf": work["hiddens"]},
            "activation_fn": torch.nn.Tanh,
        },
        seed=work["seed"],
        device="cpu",
        verbose=0,
    )
    return learned(model, work)


if __name__ == "__main__":
    answer(measured)
