"""Settings that a Q policy reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from rlrun.algorithms.dqn.return_model import ReturnModel
from rlrun.policy.exploration.epsilons import EpsilonSpread
from rlrun.policy.policy_config import PolicyConfig

QExploration = Literal["epsilon_greedy", "soft_q", "parameter_noise"]
"""Names of the explorations that come with Q policies."""


@dataclass(frozen=True)
class QSettings:
    """Settings of a Q policy, besides those of every policy.

    Attributes:
        returns: What is estimated of an action's return.
        dueling: Whether the network has a stream for the observation's value.
        noisy_sigma: First standard deviation of noisy layers' parameters; None if layers are not noisy.
        exploration: A `QExploration`, or `package.module:Class` of an exploration of one's own.
        epsilon_spread: Gives each env slot of the workers an `epsilon` of its own; None for the same everywhere.
        records_values: Whether fragments hold the values of all actions.
    """

    returns: ReturnModel = field(default_factory=ReturnModel)
    dueling: bool = False
    noisy_sigma: float | None = None
    exploration: str = "epsilon_greedy"
    epsilon_spread: EpsilonSpread | None = None
    records_values: bool = False


class QConfig(PolicyConfig, Protocol):
    """The part of an algorithm's settings that a Q policy reads."""

    @property
    def q(self) -> QSettings:
        """Settings of the Q policy."""
