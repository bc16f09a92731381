"""Custom exploration strategies by import path: instantiation and validation (NumPy)."""

from __future__ import annotations

import numpy as np

from rlrun.errors import UsageError
from rlrun.policy.action_spaces.action_space import ActionSpace
from rlrun.policy.exploration.exploration import Exploration
from rlrun.registry import load_object

_LENGTH, _SLOTS = 2, 3


def own_exploration(path: str, actions: ActionSpace) -> Exploration:
    """Instantiates a custom exploration strategy and validates the shape of its noise.

    Args:
        path: Import path of the exploration class, `package.module:Class`.
        actions: The policy's action space, passed to the constructor.

    Raises:
        UsageError: The path cannot be imported, the object is no `Exploration`, or its noise is not [T, B, ...].
    """
    named = load_object(path, what="exploration")
    if isinstance(named, Exploration) or not callable(named):
        raise UsageError(
            f"the exploration {path} is {type(named).__name__}; name a class, or a function, that makes one"
        )
    exploration = named(actions)
    if not isinstance(exploration, Exploration):
        raise UsageError(
            f"the exploration {path} makes {type(exploration).__name__}, not a "
            f"{Exploration.__module__}.{Exploration.__name__}"
        )
    noise = exploration.noise(np.random.default_rng(0), _LENGTH, _SLOTS)
    shape = getattr(noise, "shape", type(noise).__name__)
    if not isinstance(noise, np.ndarray) or noise.shape[:2] != (_LENGTH, _SLOTS):
        raise UsageError(
            f"the exploration {path} must draw noise [T, B, ...] for T steps of B env slots; for T = {_LENGTH} and "
            f"B = {_SLOTS} its noise() returned {shape}"
        )
    return exploration
