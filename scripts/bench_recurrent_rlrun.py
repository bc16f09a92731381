"""Runs one piece of recurrent PPO with rlrun; `bench_recurrent.py` starts it in a process of its own."""

from __future__ import annotations

import json
import sys
from typing import Any

from bench_ppo_rlrun import config_of, trained

POSITIONS = {"id": "rlrun.envs.partial_view:PartialView", "kwargs": {"numbers": [0, 2]}}

RUN_ENV_STEPS = 100_000
"""Env steps that a measured run is said to have ahead, which decides how its updates are computed."""


def spec_of(work: dict[str, Any]) -> dict[str, Any]:
    """Returns the spec that stands for a piece of work."""
    iterations = work["warm_up"] + work["iterations"] + 1  # what a run's end costs does not count
    core = {"core": "lstm", "core_width": work["core_width"]}
    return {
        "algorithm": "ppo",
        "env": {"id": work["env"], "wrappers": [POSITIONS]},
        "seeds": [work["seed"]],
        "stop": {"env_steps": RUN_ENV_STEPS, "iteration": iterations},
        "config": {**config_of(work), "seq_len": work["sequence"], "model": {**config_of(work)["model"], **core}},
    }


def main() -> None:
    work = json.loads(sys.argv[1])
    print(json.dumps(trained(spec_of(work), work)))


if __name__ == "__main__":
    main()
