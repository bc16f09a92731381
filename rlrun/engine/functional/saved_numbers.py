"""Validation of numbers from checkpoints that may be untrusted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

PHILOX_BUFFER = 4
"""Size of Philox's output buffer in words."""


def as_count(value: Any) -> int:
    """Returns a value after validating that it is a non-negative integer below 2**62.

    Raises:
        ValueError: The value is anything else.

    Examples:
        >>> as_count(3)
        3
    """
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 <= value < 2**62:
        raise ValueError(f"{value!r:.80} is not a count")
    return int(value)


def require_matching(saved: Any, own: Any, name: str = "it") -> None:
    """Validates that a saved state has finite numbers, and the keys, dtypes and shapes of the current state.

    Raises:
        ValueError: Keys, dtypes or shapes differ, or a number is not finite; the message names the entry.

    Examples:
        >>> require_matching({"mean": np.zeros(3)}, {"mean": np.ones(2)})
        Traceback (most recent call last):
        ValueError: it.mean is float64 (3,), not float64 (2,)
    """
    if isinstance(own, Mapping):
        if not isinstance(saved, Mapping) or saved.keys() != own.keys():
            found = ", ".join(map(str, saved)) if isinstance(saved, Mapping) else f"{saved!r:.80}"
            raise ValueError(f"{name} has {found}, not {', '.join(own)}")
        for key, value in own.items():
            require_matching(saved[key], value, f"{name}.{key}")
    elif isinstance(own, np.ndarray):
        if not isinstance(saved, np.ndarray) or (saved.dtype, saved.shape) != (own.dtype, own.shape):
            found = f"{saved.dtype} {saved.shape}" if isinstance(saved, np.ndarray) else f"{saved!r:.80}"
            raise ValueError(f"{name} is {found}, not {own.dtype} {own.shape}")
        if own.dtype.kind == "f" and not np.isfinite(saved).all():
            raise ValueError(f"{name} contains NaN or infinite numbers")
    elif isinstance(own, float):
        if type(saved) not in (int, float) or not math.isfinite(saved):
            raise ValueError(f"{name} must be a finite number, not {saved!r:.80}")
    else:
        as_count(saved)


def load_generator(generator: np.random.Generator, state: Mapping[str, Any]) -> None:
    """Restores a random generator from a saved state, after validating the state.

    The validation is needed since NumPy does not check a Philox generator's position in its buffer, and would read out
    of bounds.

    Raises:
        ValueError: The position is out of bounds, or the state belongs to a different kind of generator.
    """
    position = state.get("buffer_pos", 0)
    if type(position) is not int or not 0 <= position <= PHILOX_BUFFER:
        raise ValueError(f"{position!r:.80} is not a valid position in a generator's buffer")
    generator.bit_generator.state = dict(state)
