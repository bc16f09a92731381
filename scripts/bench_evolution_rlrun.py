"""Runs augmented random search with rlrun; `bench_evolution.py` starts it in a process of its own."""

from __future__ import annotations

import json
import sys
from typing import Any

from bench_ppo_rlrun import trained


def spec_of(work: dict[str, Any]) -> dict[str, Any]:
    """Returns the spec that stands for a piece of work."""
    return {
        "algorithm": "ars",
        "env": work["env"],
        "seeds": [work["seed"]],
        "stop": {"iteration": work["warm_up"] + work["iterations"] + 1},
        "config": {
            "num_pairs": work["num_pairs"],
            "num_envs_per_worker": work["num_envs"],
            "sigma": 0.05,
            "lr": 0.02,
            "normalize_observations": False,
            "model": {"hiddens": list(work["hiddens"])},
        },
    }


def main() -> None:
    work = json.loads(sys.argv[1])
    print(json.dumps(trained(spec_of(work), work)))


if __name__ == "__main__":
    main()
