"""Reinforcement learning from YAML: specs, dataflow, rollouts, learners and Ray Tune.

`rlrun.run` runs a spec, and `rlrun.resume` continues a run. `rlrun.Training("CartPole-v1", rlrun.PPO(lr=1e-3))` trains
step by step, and `rlrun.Training.restore` loads a checkpoint. Each algorithm has a class derived from
`rlrun.Algorithm`. Names are imported lazily: `import rlrun` alone imports neither torch nor ray. Type checkers read
`__init__.pyi`, which `python -m scripts.stubs` writes.
"""

from __future__ import annotations

import importlib
from typing import Any

_PLACES = {
    "Algorithm": "rlrun.engine.algorithm",
    "Experiment": "rlrun.experiments.spec.experiment",
    "RlrunError": "rlrun.engine.messages.errors",
    "Training": "rlrun.engine.training.training",
    "TrialResult": "rlrun.experiments.runs.trial_result",
    "load_experiments": "rlrun.experiments.spec.load",
    "resume": "rlrun.experiments.launch.run",
    "run": "rlrun.experiments.launch.run",
}
"""Modules of the public names, except those of algorithms."""


def _algorithms() -> dict[str, str]:
    """Modules of the algorithms, by class name."""
    from rlrun.engine.settings.registry import BUILT_IN

    places = (path.partition(":") for path in BUILT_IN.values())
    return {name: module for module, _, name in places}


def __getattr__(name: str) -> Any:
    """Imports a public name lazily, at the first access."""
    module = _PLACES.get(name)
    if module is None and name[0].isupper():  # lower-case names are subpackages, which Python looks up here first
        module = _algorithms().get(name)
    if module is None:
        raise AttributeError(f"module 'rlrun' has no attribute '{name}'")
    found = getattr(importlib.import_module(module), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Lists all public names, imported or not."""
    return sorted({*globals(), *_PLACES, *_algorithms()})
