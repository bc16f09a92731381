"""Reinforcement learning from YAML: specs, dataflow, rollouts, learners and Ray Tune.

`rlrun.run` runs a spec, and `rlrun.resume` continues a run. `rlrun.Training("CartPole-v1", rlrun.PPO(lr=1e-3))` trains
step by step, and `rlrun.Training.restore` loads a checkpoint. Each algorithm has a class derived from
`rlrun.Algorithm`. Names are imported lazily: `import rlrun` alone imports neither torch nor ray.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlrun.algorithms.a2c import A2C as A2C
    from rlrun.algorithms.a3c import A3C as A3C
    from rlrun.algorithms.actor_q.apex_ddpg import ApexDDPG as ApexDDPG
    from rlrun.algorithms.actor_q.ddpg import DDPG as DDPG
    from rlrun.algorithms.actor_q.presets import REDQ as REDQ
    from rlrun.algorithms.actor_q.presets import TQC as TQC
    from rlrun.algorithms.actor_q.presets import CrossQ as CrossQ
    from rlrun.algorithms.actor_q.presets import DroQ as DroQ
    from rlrun.algorithms.actor_q.presets import SimBa as SimBa
    from rlrun.algorithms.actor_q.sac import SAC as SAC
    from rlrun.algorithms.actor_q.td3 import TD3 as TD3
    from rlrun.algorithms.alphazero.alphazero import AlphaZero as AlphaZero
    from rlrun.algorithms.archer.archer import Archer as Archer
    from rlrun.algorithms.bandits.lints import LinTS as LinTS
    from rlrun.algorithms.bandits.linucb import LinUCB as LinUCB
    from rlrun.algorithms.dagger.dagger import DAgger as DAgger
    from rlrun.algorithms.dagger.distill import Distill as Distill
    from rlrun.algorithms.ddppo.ddppo import DDPPO as DDPPO
    from rlrun.algorithms.decision_transformer.dt import DT as DT
    from rlrun.algorithms.dqn.apex import Apex as Apex
    from rlrun.algorithms.dqn.async_dqn import AsyncDQN as AsyncDQN
    from rlrun.algorithms.dqn.dqn import DQN as DQN
    from rlrun.algorithms.dqn.gorila import Gorila as Gorila
    from rlrun.algorithms.dqn.iqn import IQN as IQN
    from rlrun.algorithms.dqn.pqn import PQN as PQN
    from rlrun.algorithms.dreamer.dreamer import Dreamer as Dreamer
    from rlrun.algorithms.evolution.ars import ARS as ARS
    from rlrun.algorithms.evolution.cem import CEM as CEM
    from rlrun.algorithms.evolution.cmaes import CMAES as CMAES
    from rlrun.algorithms.evolution.es import ES as ES
    from rlrun.algorithms.gail.gail import GAIL as GAIL
    from rlrun.algorithms.impala.appo import APPO as APPO
    from rlrun.algorithms.impala.impala import Impala as Impala
    from rlrun.algorithms.meta.maml import MAML as MAML
    from rlrun.algorithms.model_based.mbmpo import MBMPO as MBMPO
    from rlrun.algorithms.model_based.mbpo import MBPO as MBPO
    from rlrun.algorithms.multi_agent.ippo import IPPO as IPPO
    from rlrun.algorithms.multi_agent.maddpg import MADDPG as MADDPG
    from rlrun.algorithms.multi_agent.mappo import MAPPO as MAPPO
    from rlrun.algorithms.multi_agent.qmix import QMIX as QMIX
    from rlrun.algorithms.multi_agent.vdn import VDN as VDN
    from rlrun.algorithms.offline.awac import AWAC as AWAC
    from rlrun.algorithms.offline.bc import BC as BC
    from rlrun.algorithms.offline.bcq import BCQ as BCQ
    from rlrun.algorithms.offline.cql import CQL as CQL
    from rlrun.algorithms.offline.crr import CRR as CRR
    from rlrun.algorithms.offline.iql import IQL as IQL
    from rlrun.algorithms.offline.marwil import MARWIL as MARWIL
    from rlrun.algorithms.offline.rlpd import RLPD as RLPD
    from rlrun.algorithms.offline.td3_bc import TD3BC as TD3BC
    from rlrun.algorithms.pg.filtered_bc import FilteredBC as FilteredBC
    from rlrun.algorithms.pg.pg import PG as PG
    from rlrun.algorithms.ppg.ppg import PPG as PPG
    from rlrun.algorithms.ppo import PPO as PPO
    from rlrun.algorithms.preferences.dpo import DPO as DPO
    from rlrun.algorithms.preferences.reward_model import RewardModel as RewardModel
    from rlrun.algorithms.preferences.rlhf import RLHF as RLHF
    from rlrun.algorithms.qtopt.qtopt import QTOpt as QTOpt
    from rlrun.algorithms.random.random import Random as Random
    from rlrun.algorithms.recurrent_q.r2d2 import R2D2 as R2D2
    from rlrun.algorithms.recurrent_q.r2d3 import R2D3 as R2D3
    from rlrun.algorithms.slateq.slateq import SlateQ as SlateQ
    from rlrun.algorithms.tabular.q_learning import QLearning as QLearning
    from rlrun.algorithms.tabular.value_iteration import ValueIteration as ValueIteration
    from rlrun.algorithms.trust_region.npg import NPG as NPG
    from rlrun.algorithms.trust_region.trpo import TRPO as TRPO
    from rlrun.engine.algorithm import Algorithm as Algorithm
    from rlrun.engine.messages.errors import RlrunError as RlrunError
    from rlrun.engine.training.training import Training as Training
    from rlrun.experiments.launch.run import resume as resume
    from rlrun.experiments.launch.run import run as run
    from rlrun.experiments.runs.trial_result import TrialResult as TrialResult
    from rlrun.experiments.spec.experiment import Experiment as Experiment
    from rlrun.experiments.spec.load import load_experiments as load_experiments

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


if not TYPE_CHECKING:  # so that a type checker reports a name that does not exist

    def __getattr__(name: str) -> Any:
        """Imports a public name lazily, at the first access."""
        module = _PLACES.get(name)
        if module is None and name[0].isupper():  # not for a room's name, which is asked for before it is imported
            module = _algorithms().get(name)
        if module is None:
            raise AttributeError(f"module 'rlrun' has no attribute '{name}'")
        found = getattr(importlib.import_module(module), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """Lists all public names, imported or not."""
    return sorted({*globals(), *_PLACES, *_algorithms()})
