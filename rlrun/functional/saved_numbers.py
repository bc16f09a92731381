"""Numbers of a checkpoint that may be a stranger's, checked before anything is computed with them."""

from __future__ import annotations

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
