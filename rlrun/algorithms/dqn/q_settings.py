"""Settings of policies that act with a Q network over Discrete actions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from rlrun.algorithms.dqn.return_model import ReturnModel
from rlrun.engine.policy.exploration.epsilons import EpsilonSpread
from rlrun.engine.policy.policy_config import PolicyConfig

QExploration = Literal["epsilon_greedy", "soft_q", "parameter_noise"]
"""Names of the built-in explorations for Q policies."""


@dataclass(frozen=True)
class QSettings:
    """Settings of a Q policy, in addition to the settings of all policies.

    Attributes:
        returns: Representation of returns: expected value, C51 atoms or quantiles.
        dueling: Whether the network is dueling, with separate streams for state value and advantages.
        noisy_sigma: Initial standard deviation of the noisy layers' parameters; None without noisy layers.
        exploration: A `QExploration`, or the import path `package.module:Class` of a custom exploration.
        epsilon_spread: Rule for a different `epsilon` in each of the workers' parallel envs; None for equal epsilons.
        records_values: Whether rollout fragments include the Q values of all actions.
    """

    returns: ReturnModel = field(default_factory=ReturnModel)
    dueling: bool = False
    noisy_sigma: float | None = None
    exploration: str = "epsilon_greedy"
    epsilon_spread: EpsilonSpread | None = None
    records_values: bool = False


class QConfig(PolicyConfig, Protocol):
    """Interface of algorithm configs from which a policy with a Q network takes its settings."""

    @property
    def q(self) -> QSettings:
        """Settings of the policy with a Q network, such as exploration and the representation of returns."""
