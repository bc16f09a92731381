"""Reinforcement learning from YAML: specs, dataflow, rollouts, learners and Ray Tune.

`rlrun.run` runs a spec, `rlrun.resume` goes on with a run, `rlrun.PPO` (and what else is an algorithm) trains step by
step, `rlrun.Algorithm.restore` brings a checkpoint back. Each is imported when it is first asked for: `import rlrun`
alone imports neither torch nor ray.
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "Algorithm": "rlrun.algorithm",
    "Experiment": "rlrun.spec.experiment",
    "PPO": "rlrun.algorithms.ppo",
    "RlrunError": "rlrun.errors",
    "TrialResult": "rlrun.tune.run_directory",
    "load_experiments": "rlrun.spec.load",
    "resume": "rlrun.tune.run",
    "run": "rlrun.tune.run",
}
"""Public names and the modules that define them."""

__all__ = ["PPO", "Algorithm", "Experiment", "RlrunError", "TrialResult", "load_experiments", "resume", "run"]


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first asked for."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'rlrun' has no attribute '{name}'")
    found = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Lists the public names, whether imported yet or not."""
    return sorted({*globals(), *__all__})
