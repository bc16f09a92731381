"""A frozen policy of another run, as an opponent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.weights import Weights


@dataclass(frozen=True)
class FrozenPolicy:
    """A frozen policy of another run, as an opponent of which a league has a copy.

    Attributes:
        make: Creates its acting side, without weights.
        weights: Its weights, with its saved observation filter.
        copied: Plain data from which it can be created again.
    """

    make: Callable[[], BehaviorPolicy]
    weights: Weights
    copied: Mapping[str, Any]
