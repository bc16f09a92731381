"""Projection of parameters, such as a layer's weights, to a fixed norm after an optimizer step (torch)."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.flat_parameters import FlatParameters

SMALLEST_SQUARE = 1e-16
"""Minimum squared norm by which a projection divides."""


@dataclass(frozen=True)
class Projection:
    """Rescaling of parameters to a fixed Euclidean norm along an axis.

    Attributes:
        parameters: Names of parameters of equal shape; the norm is taken as if they were concatenated along the axis.
        axis: Axis along which the norm is taken: 1 for the weights of each output of a dense layer.
        norm: Norm after the projection.
    """

    parameters: tuple[str, ...]
    axis: int
    norm: float = 1.0


def project(parameters: FlatParameters, projections: Sequence[Projection], flat: Tensor) -> None:
    """Rescales parameters in place to the norms of projections; zeros remain zeros.

    Args:
        parameters: Names, shapes and offsets of the parameters.
        projections: The projections.
        flat: All parameters in one vector.
    """
    for projection in projections:
        slots = [parameters.slot(name) for name in projection.parameters]
        parts = [flat[slot.offset : slot.offset + slot.size].view(slot.shape) for slot in slots]
        squares = reduce(operator.add, [part.square().sum(projection.axis, keepdim=True) for part in parts])
        factors = squares.clamp(min=SMALLEST_SQUARE).rsqrt() * projection.norm
        for part in parts:
            part.mul_(factors)
