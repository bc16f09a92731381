"""RLlib's side of the offline benchmark, with behavioral cloning; `run.py` starts it in a separate venv.

It uses the new API stack, with the learner in the algorithm's own process and columns in Parquet files that Ray Data
reads. It does not import rlrun.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DEDUP_LOGS="0", PYTHONWARNINGS="ignore")

import gymnasium
import numpy as np
import pyarrow
import pyarrow.parquet
import ray
from ray.rllib.algorithms.bc import BCConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from benchmarks.peers import Measurement, answer, between, in_window

UPDATES = 100
"""Minibatches per iteration."""


def write_parquet(arrays: Any, folder: str) -> None:
    """Writes transitions in RLlib's columns."""
    observations, ends = arrays["obs"], arrays["timeouts"]
    columns = {
        "eps_id": np.cumsum(np.roll(ends, 1)) - 1,
        "obs": list(observations),
        "new_obs": list(np.roll(observations, -1, 0)),
        "actions": arrays["actions"],
        "rewards": arrays["rewards"],
        "terminateds": np.zeros_like(ends),
        "truncateds": ends,
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), f"{folder}/part.parquet")


def config_of(work: Measurement, folder: str) -> Any:
    """Returns RLlib's config for the given work."""
    env = gymnasium.make(work["env"])
    config = BCConfig().environment(observation_space=env.observation_space, action_space=env.action_space)
    config.framework("torch").debugging(seed=work["seed"], log_level="ERROR")
    config.learners(num_learners=0)
    config.training(lr=work["lr"], train_batch_size_per_learner=work["batch"])
    config.offline_data(input_=[folder], dataset_num_iters_per_learner=UPDATES)
    net = DefaultModelConfig(fcnet_hiddens=work["hiddens"], fcnet_activation="relu", head_fcnet_hiddens=[])
    config.rl_module(model_config=net)
    return config


def rows(result: Measurement) -> Measurement:
    """Returns the number of rows in the minibatches so far."""
    return {"rows": result["learners"]["default_policy"]["num_module_steps_trained_lifetime"]}


def measured(work: Measurement) -> Measurement:
    """Learns through the warm-up and the window, and returns the number of minibatches in the window."""
    ray.init(num_cpus=8, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        write_parquet(np.load(f"{work['data']}/arrays.npz"), folder)
        algorithm = config_of(work, folder).build_algo()
        results, clocks = in_window(work, algorithm.train)
        updates = between(rows(results[0]), rows(results[-1]))["rows"] / work["batch"]
        return {"env_steps": updates, "updates": updates, **clocks}


if __name__ == "__main__":
    answer(measured)
