"""Runs one piece of the off-policy benchmark with RLlib; `bench_offpolicy.py` starts it in a venv of its own.

The new API stack, sampling in the algorithm's own process (no env runners), the learner there too, one thread. It knows
nothing of rlrun, so that it can run where rlrun is not installed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DEDUP_LOGS="0", PYTHONWARNINGS="ignore")

import ray
import torch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig


def config_of(work: dict[str, Any]) -> Any:
    """Returns RLlib's config of a piece of work."""
    config = DQNConfig() if work["algorithm"] == "dqn" else SACConfig()
    config = config.environment(work["env"]).framework("torch").debugging(seed=work["seed"], log_level="ERROR")
    config.env_runners(
        num_env_runners=0, num_envs_per_env_runner=work["num_envs"], rollout_fragment_length=work["fragment"]
    )
    config.learners(num_learners=0)
    config.reporting(min_time_s_per_iteration=1)
    shared = {
        "gamma": work["gamma"],
        "train_batch_size_per_learner": work["batch"],
        "training_intensity": work["training_intensity"] * work["batch"],  # trained over sampled steps
        "num_steps_sampled_before_learning_starts": work["learning_starts"],
        "replay_buffer_config": {
            "type": "PrioritizedEpisodeReplayBuffer",
            "capacity": work["capacity"],
            "alpha": 0.6,
            "beta": 0.4,
        },
    }
    if work["algorithm"] == "dqn":
        config.training(
            **shared,
            lr=work["lr"],
            double_q=True,
            dueling=False,
            n_step=1,
            target_network_update_freq=work["target_interval_steps"],
            epsilon=0.05,
        )
        config.rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=work["hiddens"], fcnet_activation="relu", head_fcnet_hiddens=[]
            )
        )
    else:
        config.training(
            **shared,
            lr=None,
            actor_lr=work["lr"],
            critic_lr=work["lr"],
            alpha_lr=work["lr"],
            tau=work["tau"],
            twin_q=True,
            n_step=1,
            target_network_update_freq=1,
        )
        config.rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=work["hiddens"], fcnet_activation="relu", head_fcnet_hiddens=[]
            )
        )
    return config


def counts(result: dict[str, Any]) -> tuple[int, int]:
    """Returns env steps and updates so far."""
    learned = result.get("learners", {}).get("default_policy", {})
    trained = learned.get("num_module_steps_trained_lifetime", 0)
    return int(result["env_runners"]["num_env_steps_sampled_lifetime"]), int(trained)


def measured(work: dict[str, Any]) -> dict[str, Any]:
    """Trains through warm-up and window, and returns what the window held."""
    algorithm = config_of(work).build_algo()
    result = algorithm.train()
    while counts(result)[0] <= work["learning_starts"]:
        result = algorithm.train()
    began = time.perf_counter()
    while time.perf_counter() - began < work["warm_up_s"]:
        result = algorithm.train()
    began, cpu, (steps, trained) = time.perf_counter(), time.process_time(), counts(result)
    while time.perf_counter() - began < work["window_s"]:
        result = algorithm.train()
    seconds, cpu_seconds, (steps_after, trained_after) = (
        time.perf_counter() - began,
        time.process_time() - cpu,
        counts(result),
    )
    return {
        "env_steps": steps_after - steps,
        "updates": (trained_after - trained) / work["batch"],
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
    }


def main() -> None:
    torch.set_num_threads(1)
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    print(json.dumps(measured(json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
