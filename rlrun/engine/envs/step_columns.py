"""Recording of numbers from the infos of steps as columns of training batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.envs.spaces import SpaceMismatch

Step = Callable[[Any], Any]
"""Type of an env's method `step`."""


def reading_columns(env_step: Step, columns: Mapping[str, NDArray[np.float64]], slot: int) -> Step:
    """Returns a step function of an env slot that also records numbers from each step's info.

    Args:
        env_step: The env's method `step`.
        columns: Arrays [B] to which the numbers are written, by name of the info entry.
        slot: The env slot.

    Raises:
        SpaceMismatch: Raised by the returned function if an info entry is missing or is not a finite number.
    """
    kept = list(columns.items())

    def step(action: Any) -> Any:
        result = env_step(action)
        *_, info = result
        for name, column in kept:
            column[slot] = column_number(info, name)
        return result

    return step


def column_number(info: Mapping[str, Any], name: str) -> float:
    """Returns the number under a given key of a step's info, to be recorded as a column of the batch.

    Raises:
        SpaceMismatch: The info entry is missing or is not a finite number.
    """
    number = finite_number(info.get(name))
    if number is None:
        missing = f"it is missing (entries: {sorted(map(str, info))}); return 0 in steps without it"
        found = f"it is {info[name]!r}" if name in info else missing
        raise SpaceMismatch(f"env.columns needs a finite number {name!r} in every step's info, but {found}")
    return number


def finite_number(value: Any) -> float | None:
    """Converts a value to a float64 number; returns None if it is not a finite number.

    Examples:
        >>> finite_number(True), finite_number(10**400), finite_number("1")
        (1.0, None, None)
    """
    if not isinstance(value, int | float | np.integer | np.floating | np.bool_):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer with hundreds of digits
        return None
    return number if math.isfinite(number) else None
