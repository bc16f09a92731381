"""Frozen policy loaded from another run, for use as an opponent, and its weights as plain data for checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.settings.schedules import values_at


@dataclass(frozen=True)
class FrozenPolicy:
    """Frozen policy loaded from another run, which plays as an opponent in a league.

    Attributes:
        make: Function that creates the policy for acting; its weights are loaded later.
        weights: Weights of the policy and its saved observation filter (running mean and variance).
        copied: Serialized copy of the frozen policy, stored in checkpoints of the run that trains against it.
    """

    make: Callable[[], BehaviorPolicy]
    weights: Weights
    copied: Mapping[str, Any]


def saved_weights(weights: Weights) -> dict[str, Any]:
    """Serializes a policy's weights to plain data (no Python objects), for checkpoints."""
    return {
        "version": weights.version,
        "acting": weights.acting,
        "filters": {name: moments.state() for name, moments in weights.filters.items()},
        "env_steps": weights.env_steps,
        "schedules": values_at(weights.schedules, weights.env_steps),
    }


def loaded_weights(data: Mapping[str, Any]) -> Weights:
    """Restores a policy's weights from the plain data of `saved_weights()`.

    Raises:
        ValueError: The data is not valid.
    """
    acting = np.asarray(data["acting"], np.float32)
    if acting.ndim != 1 or not np.isfinite(acting).all():
        raise ValueError(f"invalid weights: shape {acting.shape}, or NaN or infinite numbers")
    return Weights(
        version=int(data["version"]),
        acting=acting,
        filters={name: Moments.from_state(moments) for name, moments in data["filters"].items()},
        env_steps=as_count(data["env_steps"]),
        schedules=dict(data["schedules"]),
    )
