"""Numbers of which each is drawn as often as it is large, with changes and draws in logarithmic time (NumPy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]

FAN_OUT = 32
"""Numbers under each sum. NumPy works on 32 in hardly more time than on two, so a wide and shallow tree is fastest."""
_LARGEST_TOP = 1024
_BEHIND = np.tri(FAN_OUT, k=-1)
"""A block [32] times this is, for each of its numbers, the sum of those behind it."""


class SumTree:
    """Keeps numbers that are not negative, and their sums in levels of blocks.

    Whenever a number changes, the sums above it are computed anew from what is under them, so that rounding errors do
    not pile up: they are the same to the last bit however the numbers came to be what they are.
    """

    def __init__(self, size: int) -> None:
        """Begins with zeros.

        Args:
            size: How many there are.
        """
        self.size = size
        self._levels: list[Floats] = []
        while size > _LARGEST_TOP:
            self._levels.append(np.zeros(-(-size // FAN_OUT) * FAN_OUT))
            size = len(self._levels[-1]) // FAN_OUT
        self._levels.append(np.zeros(size))
        self._blocks = [level.reshape(-1, FAN_OUT) for level in self._levels[:-1]]
        # Sums of the highest level from its last number on, after a zero; up to date only when something is drawn.
        self._top_sums = np.zeros(size + 1)
        self._is_changed = False

    @property
    def values(self) -> Floats:
        """All numbers, [size]; not to be written to."""
        return self._levels[0][: self.size]

    @property
    def total(self) -> float:
        """The sum of all."""
        return float(self._summed_top()[-1])

    @property
    def num_bytes(self) -> int:
        """Bytes of the numbers and their sums."""
        return sum(level.nbytes for level in self._levels)

    def set(self, indices: Indices, values: Floats | float) -> None:
        """Changes numbers; where an index comes more than once, the last of its values stays.

        Args:
            indices: Which ones, [N].
            values: What they are from now on, finite, [N] or one for all.
        """
        self._levels[0][indices] = values
        for blocks, above in zip(self._blocks, self._levels[1:], strict=True):
            indices = indices // FAN_OUT
            above[indices] = np.add.reduce(blocks.take(indices, axis=0), axis=1)
        self._is_changed = True

    def set_all(self, values: Floats) -> None:
        """Changes all numbers, [size]."""
        self._levels[0][: self.size] = values
        for blocks, above in zip(self._blocks, self._levels[1:], strict=True):
            above[: len(blocks)] = np.add.reduce(blocks, axis=1)
        self._is_changed = True

    def _summed_top(self) -> Floats:
        if self._is_changed:
            self._levels[-1][::-1].cumsum(out=self._top_sums[1:])
            self._is_changed = False
        return self._top_sums

    def draw(self, fractions: Floats) -> Indices:
        """Returns the indices at which the sum from the last number on first exceeds fractions of the total.

        A number that is zero is never found.

        Args:
            fractions: From 0 to below 1, [N].

        Raises:
            ValueError: If all numbers are zero.
        """
        top_sums = self._summed_top()
        if not top_sums[-1] > 0.0:
            raise ValueError("nothing can be drawn from numbers that are all zero")
        rest = fractions * top_sums[-1]
        from_end = top_sums[1:-1].searchsorted(rest, side="right")
        indices: Indices = len(self._levels[-1]) - 1 - from_end
        if self._blocks:
            rest -= top_sums.take(from_end)
            firsts = np.arange(0, len(indices) * FAN_OUT, FAN_OUT)
        for blocks in reversed(self._blocks):
            behind = blocks.take(indices, axis=0).dot(_BEHIND)
            children = (behind <= rest[:, None]).argmax(axis=1)
            rest -= behind.take(firsts + children)
            indices = indices * FAN_OUT + children
        return self._without_zeros(indices)

    def _without_zeros(self, indices: Indices) -> Indices:
        """Returns indices with those of zeros put right.

        What is left of a fraction after what is behind a block was taken off may come to the block's whole sum, by a
        rounding error in the last bit. It then leads to the block's first number, and the first above zero was meant.
        """
        values = self._levels[0]
        drawn = values.take(indices)
        if np.count_nonzero(drawn) < len(drawn):
            for at in (drawn == 0.0).nonzero()[0]:
                indices[at] += values[indices[at] :].nonzero()[0][0]
        return indices
