"""A policy of another run as an opponent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.weights import Weights


@dataclass(frozen=True)
class FrozenPolicy:
    """A policy of another run as an opponent, of which a league keeps a copy.

    Attributes:
        make: Returns its acting side, without weights.
        weights: Its weights, with the filter that it was saved with.
        copied: What it can be made of again, as plain data.
    """

    make: Callable[[], BehaviorPolicy]
    weights: Weights
    copied: Mapping[str, Any]
