"""Outputs of actor-critic networks (action distributions and state values), as losses receive them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.action_spaces.action_space import Distribution


@dataclass(frozen=True)
class ActorCriticOutputs:
    """Action distributions and state values that an actor-critic network computes for a batch; input of losses.

    The batch consists of S sequences with L steps each.

    Attributes:
        distribution: Action distributions, [S, L].
        values: State values V(s), [S, L].
        further_values: State values of the additional reward streams by name, [S, L].
    """

    distribution: Distribution
    values: Tensor
    further_values: Mapping[str, Tensor] = field(default_factory=dict, kw_only=True)

    @property
    def values_of_rewards(self) -> Tensor:
        """State values in units of rewards, [S, L]; they differ from `values` only if `values` are normalized."""
        return self.values
