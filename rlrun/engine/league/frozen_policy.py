"""Frozen policy of another run, for use as an opponent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.weights import Weights


@dataclass(frozen=True)
class FrozenPolicy:
    """Frozen policy of another run, for use as an opponent in a league.

    Attributes:
        make: Factory of the behavior policy, whose weights are not yet loaded.
        weights: Weights and saved observation filter.
        copied: Serialized copy of the frozen policy, for checkpoints of the league's run.
    """

    make: Callable[[], BehaviorPolicy]
    weights: Weights
    copied: Mapping[str, Any]
