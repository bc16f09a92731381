"""rlrun's side of the recurrent benchmark; `run.py` starts it in a separate process."""

from __future__ import annotations

from benchmarks.ours import run_iterations
from benchmarks.peers import Measurement, answer
from benchmarks.ppo.rlrun import entry_of

POSITIONS = {"id": "rlrun.plugin:PartialView", "kwargs": {"numbers": [0, 2]}}

RUN_ENV_STEPS = 100_000
"""Env steps that the spec sets as the end of a measured run."""


def measured(work: Measurement) -> Measurement:
    """Runs the given work, and returns the measurements."""
    entry = entry_of(work)
    model = {**entry["config"]["model"], "core": "lstm", "core_width": work["core_width"]}
    config = {**entry["config"], "min_env_steps_per_iteration": 0, "seq_len": work["sequence"], "model": model}
    env = {"id": work["env"], "wrappers": [POSITIONS]}
    return run_iterations({**entry, "env": env, "config": config, "stop": {"env_steps": RUN_ENV_STEPS}}, work)


if __name__ == "__main__":
    answer(measured)
