"""rlrun's side of the offline benchmark; `run.py` starts it in a separate process."""

from __future__ import annotations

from typing import Any

from benchmarks.ours import run_iterations, train_in_window
from benchmarks.peers import Measurement, answer
from benchmarks.ppo.rlrun import entry_of


def config_of(work: Measurement) -> dict[str, Any]:
    """Returns rlrun's config for work that learns from data."""
    rates = {} if work["algorithm"] == "bc" else {"critic_lr": work["lr"], "gamma": work["gamma"]}
    return {
        "input": f"{work['data']}/set",
        "minibatch_size": work["batch"],
        "sgd_steps_per_iteration": 100,
        "lr": work["lr"],
        "model": {"hiddens": work["hiddens"], "activation": "relu", "orthogonal_init": False},
        **rates,
        **({"num_sampled_actions": work["sampled"]} if "sampled" in work else {}),
    }


def measured(work: Measurement) -> Measurement:
    """Learns from data, or trains PPO with `output` if the work names a folder."""
    if work["algorithm"] != "ppo":
        return train_in_window(work, config_of(work), counted="sgd_steps")
    output = {"output": f"{work['output']}/{work['seed']}"} if "output" in work else {}
    return run_iterations({**entry_of(work), **output}, work)


if __name__ == "__main__":
    answer(measured)
