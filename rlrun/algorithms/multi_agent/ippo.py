"""IPPO: independent PPO, for agents of a world that each have a value of their own observation."""

from __future__ import annotations

from rlrun.algorithms.multi_agent.mappo import MAPPO, MAPPOConfig
from rlrun.config import fixed
from rlrun.nn.model_config import NormalizedValueModelConfig


@fixed("its networks are not recurrent, so that minibatches hold single steps", seq_len=16)
@fixed("ippo's value sees what the agent sees; use mappo", centralised_value=False, value_sees_observation=True)
class IPPOConfig(MAPPOConfig):
    """Settings of IPPO: MAPPO's, but for what the value sees (de Witt et al., arXiv:2011.09533)."""

    model: NormalizedValueModelConfig = NormalizedValueModelConfig(activation="relu")
    """The networks of the policy and of the value."""


class IPPO(MAPPO):
    """MAPPO whose value sees nothing but what the agent sees itself."""

    Config = IPPOConfig
    config: IPPOConfig
