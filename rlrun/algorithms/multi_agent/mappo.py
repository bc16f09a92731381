"""MAPPO: PPO for multi-agent envs, with a centralized value function of the env's global state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator
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
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import StateValueModelConfig
from rlrun.engine.settings.config import PositiveFloat, fixed

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.policy.policy import Policy
    from rlrun.engine.worlds.world_view import WorldView


@fixed(WHO_HAS_CURIOSITY, curiosity=None)
@fixed(WHO_HAS_CONSTRAINTS, constraint=None)
@mappo_defaults
class MAPPOConfig(PPOConfig):
    """Settings of MAPPO; those that the paper keeps fixed in all benchmarks have the paper's values by default.

    Value errors and clip ranges are in units of the running standard deviation of the value targets.
    """

    model: StateValueModelConfig = StateValueModelConfig(activation="relu")
    """Network architecture of the policy and of the value network. A recurrent `core` applies to the policy only, since
    the env's global state is Markov."""
    centralised_value: bool = True
    """Whether the value is centralized, a function of the env's global state; the policy always acts on the agent's own
    observation."""
    value_sees_observation: bool = True
    """Whether the agent's own observation is an additional input of the centralized value; the state alone is equal for
    all agents."""
    huber_delta: PositiveFloat = 10.0
    """Threshold of the Huber value loss, above which it is linear."""

    @model_validator(mode="after")
    def _value_sees_something(self) -> MAPPOConfig:
        if not (self.centralised_value or self.value_sees_observation):
            raise ValueError("the value network needs an input: set centralised_value or value_sees_observation")
        return self

    @model_validator(mode="after")
    def _check_memory(self) -> MAPPOConfig:
        if self.model.core is not None and not self.centralised_value:
            raise ValueError(
                "model.core: without the world's state, the value network would see less than the recurrent "
                "policy, because it has no memory; set centralised_value: true, or use ppo, whose value "
                "network is recurrent too"
            )
        return self

    @classmethod
    @override
    def shapes_parameters(cls, path: str) -> bool:
        return path in ("centralised_value", "value_sees_observation") or super().shapes_parameters(path)


class MAPPO(PPO):
    """Multi-agent PPO with a centralized value function, normalized by running moments (arXiv:2103.01955)."""

    Config: ClassVar[type[MAPPOConfig]] = MAPPOConfig
    policy_family = "rlrun.algorithms.multi_agent.state_value_policy:StateValuePolicy"
    config: MAPPOConfig

    @override
    def policy(self, spaces: Spaces, seed: int) -> Policy:
        """Creates a policy with a decentralized value function, for single-agent envs.

        Raises:
            UsageError: The settings require a centralized value function, but a single-agent env has no global state.
        """
        if self.config.centralised_value:
            raise UsageError(
                "mappo learns a value of a multi-agent world's state, but this env has a single agent: use "
                "ppo, or set centralised_value: false"
            )
        return self.family_policy(spaces, seed)

    @override
    def policy_in_world(self, spaces: Spaces, world: WorldView, seed: int) -> Policy:
        """Creates a policy for a multi-agent env, with a centralized value function unless settings disable it.

        The input of a centralized value function is the env's global state.

        Raises:
            UsageError: The env has no global state.
        """
        if not self.config.centralised_value:
            return self.family_policy(spaces, seed)
        if world.state_space is None:
            raise UsageError(
                "mappo's value network needs the state of the world, but this world does not define it: add "
                "state_space and state() to it, use ippo, or set centralised_value: false"
            )
        return self.family_policy(spaces, seed, world)

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Objectives: update of the value normalizer's moments, then PPO's loss with normalized values."""
        return [moments_objective(), *super().objectives(policy)]

    @override
    def value_errors(self, outputs: Any, batch: SampleBatch) -> Tensor:
        """Huber loss of the normalized values at each step, [rows, steps], in place of PPO's squared error."""
        config = self.config
        return normalized_value_errors(outputs, batch, bound=config.vf_clip_param, delta=config.huber_delta)
