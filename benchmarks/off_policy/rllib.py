"""RLlib's side of the off-policy benchmark; `run.py` starts it in a separate venv.

It uses the new API stack, and samples and learns in the algorithm's own process (no env runners) with one thread. It
does not import rlrun, so it can run in a venv without it.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DEDUP_LOGS="0", PYTHONWARNINGS="ignore")

import ray
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from benchmarks.peers import Measurement, answer, between, in_window


def config_of(work: Measurement) -> Any:
    """Returns RLlib's config for the given work."""
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
        "training_intensity": work["training_intensity"] * work["batch"],  # trained steps per sampled step
        "num_steps_sampled_before_learning_starts": work["learning_starts"],
        "replay_buffer_config": {
            "type": "PrioritizedEpisodeReplayBuffer",
            "capacity": work["capacity"],
            "alpha": 0.6,
            "beta": 0.4,
        },
    }
    if work["algorithm"] == "dqn":
        own = {
            "lr": work["lr"],
            "double_q": True,
            "dueling": False,
            "target_network_update_freq": work["target_interval_steps"],
            "epsilon": 0.05,
        }
    else:
        rates = dict.fromkeys(("actor_lr", "critic_lr", "alpha_lr"), work["lr"])
        own = {"lr": None, **rates, "tau": work["tau"], "twin_q": True, "target_network_update_freq": 1}
    config.training(**shared, **own, n_step=1)
    net = DefaultModelConfig(fcnet_hiddens=work["hiddens"], fcnet_activation="relu", head_fcnet_hiddens=[])
    config.rl_module(model_config=net)
    return config


def counts(result: Measurement) -> Measurement:
    """Returns the env steps so far, and the number of rows in the minibatches so far."""
    learned = result.get("learners", {}).get("default_policy", {})
    trained = learned.get("num_module_steps_trained_lifetime", 0)
    return {"env_steps": result["env_runners"]["num_env_steps_sampled_lifetime"], "rows": trained}


def measured(work: Measurement) -> Measurement:
    """Trains through the warm-up and the window, and returns the measurements of the window."""
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    algorithm = config_of(work).build_algo()
    while counts(algorithm.train())["env_steps"] <= work["learning_starts"]:
        pass
    results, clocks = in_window(work, algorithm.train)
    counted = between(counts(results[0]), counts(results[-1]))
    return {"env_steps": counted["env_steps"], "updates": counted["rows"] / work["batch"], **clocks}


if __name__ == "__main__":
    answer(measured)
