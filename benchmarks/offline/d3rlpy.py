"""d3rlpy's side of the offline benchmark; `run.py` starts it in a separate venv.

It draws minibatches and learns from them as `fit` does, without the logging. It does not import rlrun.
"""

from __future__ import annotations

from typing import Any

import d3rlpy
import numpy as np
import torch

from benchmarks.peers import Measurement, answer, in_window

UPDATES = 20
"""Updates between two readings of the clock."""


def algorithm_of(work: Measurement) -> Any:
    """Returns d3rlpy's algorithm with the work's networks and settings."""
    layers = d3rlpy.models.VectorEncoderFactory(hidden_units=work["hiddens"])
    roles = ("actor", "critic") if work["algorithm"] == "cql" else ("actor", "critic", "value")
    shared = {
        "batch_size": work["batch"],
        "gamma": work["gamma"],
        "actor_learning_rate": work["lr"],
        "critic_learning_rate": work["lr"],
        **{f"{role}_encoder_factory": layers for role in roles},
    }
    if work["algorithm"] == "iql":
        return d3rlpy.algos.IQLConfig(**shared).create(device="cpu:0")
    # As in rlrun's default, the weight of the conservative loss is fixed.
    return d3rlpy.algos.CQLConfig(**shared, n_action_samples=work["sampled"], alpha_learning_rate=0.0).create(
        device="cpu:0"
    )


def measured(work: Measurement) -> Measurement:
    """Updates through the warm-up and the window, and returns the number of updates in the window."""
    torch.set_num_threads(1)
    arrays = np.load(f"{work['data']}/arrays.npz")
    ends = arrays["timeouts"].astype(np.float32)
    dataset = d3rlpy.dataset.MDPDataset(
        arrays["obs"], arrays["actions"], arrays["rewards"].astype(np.float32), np.zeros_like(ends), ends
    )
    algorithm = algorithm_of(work)
    algorithm.build_with_dataset(dataset)

    def step() -> None:
        for _ in range(UPDATES):
            algorithm.update(dataset.sample_transition_batch(work["batch"]))

    done, clocks = in_window(work, step)
    updates = UPDATES * (len(done) - 1)
    return {"env_steps": updates, "updates": updates, **clocks}


if __name__ == "__main__":
    answer(measured)
