"""IPPO: independent PPO for multi-agent envs, with a value function of each agent's own observation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from rlrun.algorithms.multi_agent.normalized_values import (
    mappo_defaults,
    moments_objective,
    normalized_value_errors,
)
from rlrun.algorithms.ppo import PPO, PPOConfig
from rlrun.algorithms.settings.on_policy import WHO_HAS_CONSTRAINTS, WHO_HAS_CURIOSITY
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.learner.objective import Objective
from rlrun.engine.nn.model_config import NormalizedValueModelConfig
from rlrun.engine.settings.config import PositiveFloat, fixed

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.policy import Policy

NOT_CENTRALISED = "ippo's value function sees only the agent's observation; use mappo"
"""Error message for settings of MAPPO's value inputs."""


@fixed("the networks are not recurrent, so minibatches hold single steps", seq_len=16)
@fixed(WHO_HAS_CURIOSITY, curiosity=None)
@fixed(WHO_HAS_CONSTRAINTS, constraint=None)
@mappo_defaults
class IPPOConfig(PPOConfig):
    """Settings of IPPO (de Witt et al., arXiv:2011.09533): MAPPO's settings without a centralized value function."""

    value_sees_observation: ClassVar[bool] = True
    """Whether the agent's own observation is an input of the value network, as in MAPPO's settings; always True
    here."""
    refused: ClassVar[Mapping[str, str]] = {
        "centralised_value": NOT_CENTRALISED,
        "value_sees_observation": NOT_CENTRALISED,
    }

    model: NormalizedValueModelConfig = NormalizedValueModelConfig(activation="relu")
    """Network architecture of the policy and of the value network."""
    huber_delta: PositiveFloat = 10.0
    """Threshold of the Huber value loss, above which it is linear."""


class IPPO(PPO):
    """Independent PPO: value functions of each agent's own observation, normalized as in MAPPO (arXiv:2011.09533)."""

    Config = IPPOConfig
    policy_family = "rlrun.algorithms.multi_agent.state_value_policy:StateValuePolicy"
    config: IPPOConfig

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Objectives: update of the value normalizer's moments, then PPO's loss with normalized values."""
        return [moments_objective(), *super().objectives(policy)]

    @override
    def value_errors(self, outputs: Any, batch: SampleBatch) -> Tensor:
        """Huber loss of the normalized values at each step, [rows, steps], in place of PPO's squared error."""
        config = self.config
        return normalized_value_errors(outputs, batch, bound=config.vf_clip_param, delta=config.huber_delta)
