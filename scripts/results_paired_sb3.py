"""Trains with Stable-Baselines3 for `results_paired.py`, which runs it in a separate venv."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import VecEnv, VecNormalize


def main() -> None:
    """Trains as the first argument specifies, and prints the mean return of the last policy."""
    torch.set_num_threads(1)
    print(json.dumps({"value": trained(json.loads(sys.argv[1]))}))


def trained(work: dict[str, Any]) -> float:
    """Trains for the budget, and evaluates the most likely actions.

    Args:
        work: The pair's `env`, `env_steps` and `sb3` settings, a `seed`, and the number of evaluation `episodes`.
    """
    settings = dict(work["sb3"])
    name = settings.pop("algorithm")
    algorithm = getattr(sb3_contrib if name in sb3_contrib.__all__ else stable_baselines3, name)
    is_normalized, num_envs = settings.pop("normalize", False), settings.pop("n_envs", 1)
    noise_std = settings.pop("noise_std", None)
    env = world(work["env"], num_envs, work["seed"])
    if is_normalized:
        env = VecNormalize(env, gamma=settings.get("gamma", 0.99))
    if noise_std is not None:
        size = env.action_space.shape[0]
        settings["action_noise"] = NormalActionNoise(np.zeros(size), noise_std * np.ones(size))
    settings = {name: scheduled(value) for name, value in settings.items()}
    model = algorithm("MlpPolicy", env, seed=work["seed"], device="cpu", verbose=0, **settings)
    model.learn(work["env_steps"])
    judged = world(work["env"], 8, 10_000 + work["seed"])
    if is_normalized:
        moments = env.obs_rms
        judged = VecNormalize(judged, training=False, norm_reward=False)
        judged.obs_rms = moments
    mean, _ = evaluate_policy(model, judged, n_eval_episodes=work["episodes"], deterministic=True)
    return float(mean)


def world(env: str | dict[str, Any], num_envs: int, seed: int) -> VecEnv:
    """Makes a vector env."""
    name, kwargs = (env, {}) if isinstance(env, str) else (env["id"], env.get("kwargs", {}))
    return make_vec_env(lambda: gymnasium.make(name, **kwargs), n_envs=num_envs, seed=seed)


def scheduled(value: Any) -> Any:
    """Returns a setting in the form Stable-Baselines3 expects: `lin_x` falls from x to 0 over the run."""
    if isinstance(value, str) and value.startswith("lin_"):
        first = float(value.removeprefix("lin_"))
        falling: Callable[[float], float] = lambda left: left * first  # noqa: E731
        return falling
    return value


if __name__ == "__main__":
    main()
