"""Numbers of a checkpoint that may be a stranger's, checked before anything is computed with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

PHILOX_BUFFER = 4
"""Words that Philox draws at a time."""


def as_count(value: Any) -> int:
    """Returns a whole number that is not negative and fits into 62 bits.

    Raises:
        ValueError: If it is something else.

    Examples:
        >>> as_count(3)
        3
    """
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 <= value < 2**62:
        raise ValueError(f"{value!r:.80} is no count")
    return int(value)


def demand_like(saved: Any, own: Any, name: str = "it") -> None:
    """Holds what was saved to what its owner would save now: the same keys, dtypes and shapes, all numbers finite.

    Raises:
        ValueError: If it differs; the message says where.

    Examples:
        >>> demand_like({"mean": np.zeros(3)}, {"mean": np.ones(2)})
        Traceback (most recent call last):
        ValueError: it.mean is float64 (3,), not float64 (2,)
    """
    if isinstance(own, Mapping):
        if not isinstance(saved, Mapping) or saved.keys() != own.keys():
            found = ", ".join(map(str, saved)) if isinstance(saved, Mapping) else f"{saved!r:.80}"
            raise ValueError(f"{name} has {found}, not {', '.join(own)}")
        for key, value in own.items():
            demand_like(saved[key], value, f"{name}.{key}")
    elif isinstance(own, np.ndarray):
        if not isinstance(saved, np.ndarray) or (saved.dtype, saved.shape) != (own.dtype, own.shape):
            found = f"{saved.dtype} {saved.shape}" if isinstance(saved, np.ndarray) else f"{saved!r:.80}"
            raise ValueError(f"{name} is {found}, not {own.dtype} {own.shape}")
        if own.dtype.kind == "f" and not np.isfinite(saved).all():
            raise ValueError(f"{name} has numbers that are not finite")
    elif isinstance(own, float):
        if type(saved) not in (int, float) or not math.isfinite(saved):
            raise ValueError(f"{name} is {saved!r:.80}, no finite number")
    else:
        as_count(saved)


def load_generator(generator: np.random.Generator, state: Mapping[str, Any]) -> None:
    """Has a generator go on with a saved state.

    NumPy itself does not look at the place in Philox's buffer, and would read beside it.

    Raises:
        ValueError: If the state is none of such a generator.
    """
    place = state.get("buffer_pos", 0)
    if type(place) is not int or not 0 <= place <= PHILOX_BUFFER:
        raise ValueError(f"{place!r:.80} is no place in a generator's buffer")
    generator.bit_generator.state = dict(state)
