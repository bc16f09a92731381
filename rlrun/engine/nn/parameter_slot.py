"""Position of a network parameter in a flat vector of all parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class ParameterSlot:
    """Name, offset and shape of one network parameter in a flat vector of all parameters.

    Attributes:
        name: Name of the parameter.
        offset: Index of the parameter's first element.
        shape: Shape of the parameter.
    """

    name: str
    offset: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements of the parameter."""
        return math.prod(self.shape)
