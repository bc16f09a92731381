"""Outputs of a policy with a normalised state value (torch)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rlrun.policy.actor_critic_outputs import ActorCriticOutputs


@dataclass(frozen=True)
class StateValueOutputs(ActorCriticOutputs):
    """Outputs of the policy and of normalised `values`.

    Attributes:
        moments: The moments by which values are normalised, [3].
    """

    moments: Tensor
