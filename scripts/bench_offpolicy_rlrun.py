"""Runs one piece of the off-policy benchmark with rlrun; `bench_offpolicy.py` starts it in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from bench_impala_rlrun import LONG_RUN, shares
from bench_multiagent_rlrun import env_of
from bench_peers import cpu_seconds_of_tree

from rlrun.registry import algorithm_class
from rlrun.training.training import Training


def config_of(work: dict[str, Any]) -> dict[str, Any]:
    """Returns rlrun's config of a piece of work."""
    config: dict[str, Any] = {
        "num_envs_per_worker": work["num_envs"],
        "rollout_fragment_length": work["fragment"],
        "minibatch_size": work["batch"],
        "training_intensity": work["training_intensity"],
        "learning_starts": work["learning_starts"],
        "gamma": work["gamma"],
        "lr": work["lr"],
        "min_env_steps_per_iteration": work["min_env_steps"],
        "replay": {"capacity": work["capacity"]},
        "model": {"hiddens": work["hiddens"], "activation": "relu", "orthogonal_init": False},
        **work.get("config", {}),
    }
    if work["algorithm"] in ("dqn", "apex"):
        # Stable-Baselines3 counts env steps between two copies of the network, rlrun minibatches.
        interval = round(work["target_interval_steps"] * work["training_intensity"])
        return {**config, "target_update_interval": interval, "epsilon": 0.05}
    return {**config, **({"tau": work["tau"]} if "tau" in work else {})}


def trained(work: dict[str, Any]) -> dict[str, Any]:
    """Trains through warm-up and window, and returns what the window held."""
    kind = algorithm_class(work["algorithm"])
    algorithm = kind(kind.Config.parse(config_of(work)))
    with Training(env_of(work), algorithm, seed=work["seed"], total_env_steps=LONG_RUN) as training:
        result = training.step()
        while result["sgd_steps"] == 0:
            result = training.step()
        began = time.perf_counter()
        while time.perf_counter() - began < work["warm_up_s"]:
            result = training.step()
        began, began_cpu, updates = time.perf_counter(), cpu_seconds_of_tree(), result["sgd_steps"]
        results: list[dict[str, Any]] = []
        while time.perf_counter() - began < work["window_s"]:
            results.append(training.step())
        seconds, cpu_seconds = time.perf_counter() - began, cpu_seconds_of_tree() - began_cpu
    return {
        "env_steps": sum(result["env_steps_per_s"] * result["time_this_iter_s"] for result in results),
        "updates": results[-1]["sgd_steps"] - updates,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "update_executor": training.update_executor,
        "waits": sum(result["time/learner_wait_share"] * result["time_this_iter_s"] for result in results) / seconds,
        "shares": shares(results, seconds),
    }


def main() -> None:
    print(json.dumps(trained(json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
