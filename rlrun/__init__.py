"""Reinforcement learning from YAML: specs, dataflow, rollouts, learners and Ray Tune.

`rlrun.run` runs a spec, `rlrun.resume` goes on with a run, `rlrun.PPO` and its siblings train step by step,
`rlrun.Algorithm.restore` brings a checkpoint of any of them back. Each is imported when it is first asked for: `import
rlrun` alone imports neither torch nor ray. An algorithm of one's own derives from `rlrun.algorithm.Algorithm`.
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "A2C": "rlrun.python_api:A2C",
    "A3C": "rlrun.python_api:A3C",
    "APPO": "rlrun.python_api:APPO",
    "ARS": "rlrun.python_api:ARS",
    "Algorithm": "rlrun.python_api:TrainedAlgorithm",
    "AlphaZero": "rlrun.python_api:AlphaZero",
    "Apex": "rlrun.python_api:Apex",
    "ApexDDPG": "rlrun.python_api:ApexDDPG",
    "AsyncDQN": "rlrun.python_api:AsyncDQN",
    "CEM": "rlrun.python_api:CEM",
    "CMAES": "rlrun.python_api:CMAES",
    "DDPG": "rlrun.python_api:DDPG",
    "DDPPO": "rlrun.python_api:DDPPO",
    "DQN": "rlrun.python_api:DQN",
    "Dreamer": "rlrun.python_api:Dreamer",
    "ES": "rlrun.python_api:ES",
    "Experiment": "rlrun.spec.experiment:Experiment",
    "Gorila": "rlrun.python_api:Gorila",
    "IPPO": "rlrun.python_api:IPPO",
    "Impala": "rlrun.python_api:Impala",
    "LinTS": "rlrun.python_api:LinTS",
    "LinUCB": "rlrun.python_api:LinUCB",
    "MADDPG": "rlrun.python_api:MADDPG",
    "MAML": "rlrun.python_api:MAML",
    "MAPPO": "rlrun.python_api:MAPPO",
    "MBMPO": "rlrun.python_api:MBMPO",
    "MBPO": "rlrun.python_api:MBPO",
    "PG": "rlrun.python_api:PG",
    "PPO": "rlrun.python_api:PPO",
    "QMIX": "rlrun.python_api:QMIX",
    "QLearning": "rlrun.python_api:QLearning",
    "QTOpt": "rlrun.python_api:QTOpt",
    "R2D2": "rlrun.python_api:R2D2",
    "R2D3": "rlrun.python_api:R2D3",
    "Random": "rlrun.python_api:Random",
    "RlrunError": "rlrun.errors:RlrunError",
    "SAC": "rlrun.python_api:SAC",
    "TD3": "rlrun.python_api:TD3",
    "VDN": "rlrun.python_api:VDN",
    "ValueIteration": "rlrun.python_api:ValueIteration",
    "TrialResult": "rlrun.runs.trial_result:TrialResult",
    "load_experiments": "rlrun.spec.load:load_experiments",
    "resume": "rlrun.launch.run:resume",
    "run": "rlrun.launch.run:run",
}
"""Public names and what they stand for."""

__all__ = [
    "A2C",
    "A3C",
    "APPO",
    "ARS",
    "CEM",
    "CMAES",
    "DDPG",
    "DDPPO",
    "DQN",
    "ES",
    "IPPO",
    "MADDPG",
    "MAML",
    "MAPPO",
    "MBMPO",
    "MBPO",
    "PG",
    "PPO",
    "QMIX",
    "R2D2",
    "R2D3",
    "SAC",
    "TD3",
    "VDN",
    "Algorithm",
    "AlphaZero",
    "Apex",
    "ApexDDPG",
    "AsyncDQN",
    "Dreamer",
    "Experiment",
    "Gorila",
    "Impala",
    "LinTS",
    "LinUCB",
    "QLearning",
    "QTOpt",
    "Random",
    "RlrunError",
    "TrialResult",
    "ValueIteration",
    "load_experiments",
    "resume",
    "run",
]


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first asked for."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'rlrun' has no attribute '{name}'")
    module, _, attribute = _PUBLIC[name].partition(":")
    found = getattr(importlib.import_module(module), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Lists the public names, whether imported yet or not."""
    return sorted({*globals(), *__all__})
