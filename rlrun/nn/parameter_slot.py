"""Where a parameter lies in a flat vector."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class ParameterSlot:
    """Where one parameter lies in a flat vector.

    Attributes:
        name: Its name.
        offset: Where it begins.
        shape: Its shape.
    """

    name: str
    offset: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Numbers in it."""
        return math.prod(self.shape)
