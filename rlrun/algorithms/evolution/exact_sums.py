"""Exact sums of floats and of their squares in integer arithmetic, independent of order and grouping."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.functional.moments import Moments

UNIT = -149
"""Binary exponent of the smallest positive float32; every float32 is a multiple of 2**-149."""

_DIGITS, _HALF = 24, 12


@dataclass(frozen=True)
class ExactSums:
    """Exact sums of float32 rows and of their squares, in integers of any size.

    Unlike floating-point sums, exact sums do not depend on the grouping of the terms.

    Attributes:
        shape: Shape of a row, with D numbers in total.
        count: Number of rows.
        sums: Sum of each column in units of 2**-149, [D].
        squares: Sum of squares of each column in units of 2**-298, [D].
    """

    shape: tuple[int, ...]
    count: int
    sums: tuple[int, ...]
    squares: tuple[int, ...]

    @classmethod
    def of(cls, rows: NDArray[Any]) -> ExactSums:
        """Exact sums over rows [N, *shape], converted to float32; N is at most 2**29.

        Raises:
            ValueError: If a number is not finite.
        """
        numbers = rows.astype(np.float32, copy=False).reshape(len(rows), math.prod(rows.shape[1:]))
        if not np.isfinite(numbers).all():
            raise ValueError("cannot sum NaN or infinity")
        # Each number is an integer below 2**24 times a power of two. Those with equal powers add up exactly in float64.
        mantissas, exponents = np.frexp(numbers.astype(np.float64))
        whole = np.ldexp(mantissas, _DIGITS)
        lowest = int(exponents.min(initial=0))
        powers = int(exponents.max(initial=0)) - lowest + 1
        width = numbers.shape[1]
        places = (np.arange(width) * powers + (exponents - lowest)).ravel()

        def by_power(values: NDArray[np.float64]) -> list[list[int]]:
            totals = np.bincount(places, values.ravel(), minlength=width * powers)
            return [[int(total) for total in column] for column in totals.reshape(width, powers)]

        # A square has 48 binary digits, so the upper and the lower half of each number are summed separately.
        upper = np.trunc(np.ldexp(whole, -_HALF))
        lower = whole - np.ldexp(upper, _HALF)
        parts = zip(by_power(upper * upper), by_power(2 * upper * lower), by_power(lower * lower), strict=True)
        shifts = [lowest + power - _DIGITS - UNIT for power in range(powers)]
        return cls(
            rows.shape[1:],
            len(numbers),
            tuple(
                sum(_shifted(total, s) for total, s in zip(column, shifts, strict=True)) for column in by_power(whole)
            ),
            tuple(
                sum(
                    _shifted((high << 2 * _HALF) + (middle << _HALF) + low, 2 * s)
                    for high, middle, low, s in zip(*three, shifts, strict=True)
                )
                for three in parts
            ),
        )

    def merged(self, other: ExactSums) -> ExactSums:
        """Merges exact sums over two disjoint sets of rows."""
        return ExactSums(
            self.shape,
            self.count + other.count,
            tuple(a + b for a, b in zip(self.sums, other.sums, strict=True)),
            tuple(a + b for a, b in zip(self.squares, other.squares, strict=True)),
        )

    def moments(self) -> Moments:
        """Count, mean and sum of squared deviations, each rounded once."""
        if not self.count:
            return Moments.empty(self.shape)
        means = [Fraction(total, self.count) for total in self.sums]
        deviations = [square - total * mean for square, total, mean in zip(self.squares, self.sums, means, strict=True)]
        unit = Fraction(2) ** UNIT
        return Moments(
            float(self.count),
            np.array([float(mean * unit) for mean in means]).reshape(self.shape),
            np.array([float(deviation * unit**2) for deviation in deviations]).reshape(self.shape),
        )


def _shifted(number: int, by: int) -> int:
    """Multiplies an integer by 2 ** by; negative exponents shift right, which rounds down."""
    return number << by if by >= 0 else number >> -by
