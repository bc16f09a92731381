"""rlrun's side of the evolution benchmark; `run.py` starts it in a separate process."""

from __future__ import annotations

from benchmarks.ours import run_iterations
from benchmarks.peers import Measurement, answer


def measured(work: Measurement) -> Measurement:
    """Runs the given work, and returns the measurements."""
    config = {
        "num_pairs": work["num_pairs"],
        "num_envs_per_worker": work["num_envs"],
        "sigma": 0.05,
        "lr": 0.02,
        "normalize_observations": False,
        "model": {"hiddens": work["hiddens"]},
    }
    return run_iterations({"algorithm": "ars", "config": config}, work)


if __name__ == "__main__":
    answer(measured)
