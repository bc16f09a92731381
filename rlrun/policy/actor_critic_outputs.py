"""What the losses of actor-critics are functions of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.policy.action_spaces.action_space import Distribution


@dataclass(frozen=True)
class ActorCriticOutputs:
    """What a loss of an actor-critic policy is a function of.

    Attributes:
        distribution: Over actions, [S, L].
        values: Estimated returns, [S, L].
        further_values: Those of further streams of rewards by name, [S, L].
    """

    distribution: Distribution
    values: Tensor
    further_values: Mapping[str, Tensor] = field(default_factory=dict, kw_only=True)
