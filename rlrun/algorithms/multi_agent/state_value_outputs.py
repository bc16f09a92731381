"""Outputs of a policy with a normalised state value (torch)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs


@dataclass(frozen=True)
class StateValueOutputs(ActorCriticOutputs):
    """Actor-critic outputs whose `values` are normalised.

    Attributes:
        moments: Running moments of the value targets, for normalisation, [3].
    """

    moments: Tensor
