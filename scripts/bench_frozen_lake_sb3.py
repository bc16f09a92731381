"""Trains Stable-Baselines3's DQN for `bench_frozen_lake.py`, which starts it in a venv of its own."""

from __future__ import annotations

import json
import sys
from typing import Any

import gymnasium
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy


def trained(work: dict[str, Any]) -> float:
    """Trains and returns the part of evaluated episodes that reach the goal."""
    env = {"id": "FrozenLake-v1", "map_name": work["map"], "is_slippery": True}
    model = DQN(
        "MlpPolicy",
        gymnasium.make(**env),
        learning_rate=work["lr"],
        buffer_size=work["capacity"],
        learning_starts=work["learning_starts"],
        batch_size=work["minibatch"],
        tau=1.0,
        gamma=work["gamma"],
        train_freq=work["train_every"],
        gradient_steps=1,
        target_update_interval=work["target_every"],
        exploration_fraction=work["exploration_fraction"],
        exploration_initial_eps=1.0,
        exploration_final_eps=work["epsilon_end"],
        max_grad_norm=work["max_grad_norm"],
        policy_kwargs={"net_arch": work["hiddens"]},
        seed=work["seed"],
        device="cpu",
        verbose=0,
    )
    model.learn(work["env_steps"])
    fresh = make_vec_env(lambda: gymnasium.make(**env), n_envs=8, seed=10_000 + work["seed"])
    mean, _ = evaluate_policy(model, fresh, n_eval_episodes=work["episodes"], deterministic=True)
    return float(mean)


def main() -> None:
    torch.set_num_threads(1)
    print(json.dumps(trained(json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
