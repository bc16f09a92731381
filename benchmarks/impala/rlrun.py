"""rlrun's side of the IMPALA benchmark; `run.py` starts it in a separate process.

It trains as a user's own loop over `train` does, with workers in Ray actors and without result files, like the other
sides.
"""

from __future__ import annotations

from benchmarks.ours import train_in_window
from benchmarks.peers import Measurement, answer


def measured(work: Measurement) -> Measurement:
    """Runs the given work, and returns the measurements."""
    is_pong = work["env"].startswith("ALE/")
    pong = {"clip_rewards": 1, "model": {"conv": "nature", "hiddens": [], "shared_value": True}}
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
        **work["config"],
        **(pong if is_pong else {"model": {"hiddens": [64, 64], "activation": "tanh"}}),
    }
    env = {"id": work["env"], "kwargs": {"num_threads": 1}} if is_pong else work["env"]
    return train_in_window({**work, "env": env}, config)


if __name__ == "__main__":
    answer(measured)
