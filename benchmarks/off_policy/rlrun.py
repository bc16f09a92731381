"""rlrun's side of the off-policy benchmark; `run.py` starts it in a separate process."""

from __future__ import annotations

from typing import Any

from benchmarks.ours import train_in_window
from benchmarks.peers import Measurement, answer


def config_of(work: Measurement) -> dict[str, Any]:
    """Returns rlrun's config for the given work."""
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
        **work["config"],
    }
    if work["algorithm"] in ("dqn", "apex"):
        # Stable-Baselines3 counts the env steps between two copies of the network; rlrun counts minibatches.
        interval = round(work["target_interval_steps"] * work["training_intensity"])
        return {**config, "target_update_interval": interval, "epsilon": 0.05, "huber": 1.0}
    return {**config, **({"tau": work["tau"]} if "tau" in work else {})}


if __name__ == "__main__":
    answer(lambda work: train_in_window(work, config_of(work)))
