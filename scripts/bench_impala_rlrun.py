"""Runs one piece of the IMPALA benchmark with rlrun; `bench_impala.py` starts it in a process of its own.

It trains as a user's own loop over `train` does, with workers in Ray actors and without result files, like the sides
that it is compared with.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from bench_peers import cpu_seconds_of_tree

from rlrun.envs.env_config import EnvConfig
from rlrun.registry import algorithm_class
from rlrun.training.training import Training

LONG_RUN = 100_000_000
"""Env steps that a measured run is said to have ahead: its rate is that of a long run, whose updates are compiled."""


def config_of(work: dict[str, Any]) -> dict[str, Any]:
    """Returns rlrun's config of a piece of work."""
    config = {
        "num_workers": work["workers"],
        "num_envs_per_worker": work["num_envs"],
        "rollout_fragment_length": work["fragment"],
        "train_batch_size": work["batch"],
        "min_env_steps_per_iteration": work["batch"],
        "lr": work["lr"],
        "gamma": work["gamma"],
        "entropy_coeff": 0.01,
        "max_grad_norm": 40.0,
        **work.get("config", {}),
    }
    if work["env"] == "CartPole-v1":
        return {**config, "model": {"hiddens": [64, 64], "activation": "tanh"}}
    return {**config, "clip_rewards": 1, "model": {"conv": "nature", "hiddens": [], "shared_value": True}}


def trained(work: dict[str, Any]) -> dict[str, Any]:
    """Trains through warm-up and window, and returns what the window held."""
    env = {"id": work["env"], "kwargs": {"num_threads": 1}} if work["env"].startswith("ALE/") else work["env"]
    kind = algorithm_class(work["algorithm"])
    algorithm = kind(kind.Config.parse(config_of(work)))
    with Training(EnvConfig.parse(env), algorithm, seed=work["seed"], total_env_steps=LONG_RUN) as training:
        training.step()  # starts everything
        began = time.perf_counter()
        while time.perf_counter() - began < work["warm_up_s"]:
            training.step()
        began, began_cpu = time.perf_counter(), cpu_seconds_of_tree()
        results: list[dict[str, Any]] = []
        while time.perf_counter() - began < work["window_s"]:
            results.append(training.step())
        seconds, cpu_seconds = time.perf_counter() - began, cpu_seconds_of_tree() - began_cpu
    return {
        "env_steps": sum(result["env_steps_per_s"] * result["time_this_iter_s"] for result in results),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "episode_return": results[-1]["episode_return_mean"],
        "update_executor": training.update_executor,
        "policy_lag": mean(results, "policy_lag_mean"),
        "policy_lag_max": max(result["policy_lag_max"] for result in results),
        "shares": shares(results, seconds),
    }


def shares(results: Sequence[dict[str, Any]], seconds: float) -> dict[str, float]:
    """Returns what the time of the process that learns goes into, by operator, waiting for workers included."""
    names = [name for name in results[0] if name.startswith("time/") and name.endswith("_s")]
    spent = {name[len("time/") : -len("_s")]: sum(result[name] for result in results) for name in names}
    return {name: part / seconds for name, part in spent.items()}


def mean(results: Sequence[dict[str, Any]], name: str) -> float:
    return float(sum(result[name] for result in results) / len(results))


def main() -> None:
    print(json.dumps(trained(json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
