"""Offset and shape of a parameter in a flat vector."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class ParameterSlot:
    """Offset and shape of one parameter in a flat vector.

    Attributes:
        name: Its name.
        offset: Index of its first element.
        shape: Its shape.
    """

    name: str
    offset: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)
