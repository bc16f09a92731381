"""Binary tree of sums: samples in proportion to values, and updates them, in logarithmic time (NumPy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]

FAN_OUT = 32
"""Number of children per node: NumPy adds 32 numbers about as fast as two, so a wide, shallow tree is fastest."""
_LARGEST_TOP = 1024
_LATER = np.tri(FAN_OUT, k=-1)
"""Strictly triangular matrix: multiplying a block [32] by it yields exclusive suffix sums."""


class SumTree:
    """Binary tree whose leaves hold non-negative values and whose inner nodes hold sums, for proportional sampling.

    Each update recomputes the sums of all ancestors from their children, so rounding errors do not accumulate: the sums
    depend only on the current leaves, bit for bit.
    """

    def __init__(self, size: int) -> None:
        """Initializes all leaves to 0.

        Args:
            size: Number of leaves.
        """
        self.size = size
        self._levels: list[Floats] = []
        while size > _LARGEST_TOP:
            self._levels.append(np.zeros(-(-size // FAN_OUT) * FAN_OUT))
            size = len(self._levels[-1]) // FAN_OUT
        self._levels.append(np.zeros(size))
        self._blocks = [level.reshape(-1, FAN_OUT) for level in self._levels[:-1]]
        # Cumulative sums of the top level, from its end, with a leading zero; updated only before sampling.
        self._top_sums = np.zeros(size + 1)
        self._is_changed = False

    @property
    def values(self) -> Floats:
        """Values of all leaves; must not be modified."""
        return self._levels[0][: self.size]

    @property
    def total(self) -> float:
        """Sum of all values in the tree."""
        return float(self._summed_top()[-1])

    @property
    def num_bytes(self) -> int:
        """Bytes allocated for the values and all sums."""
        return sum(level.nbytes for level in self._levels)

    def set(self, indices: Indices, values: Floats | float) -> None:
        """Sets values by index; if an index occurs twice, the last value counts.

        Args:
            indices: Leaf indices, [N].
            values: New finite values, [N] or a scalar for all.
        """
        self._levels[0][indices] = values
        for blocks, above in zip(self._blocks, self._levels[1:], strict=True):
            indices = indices // FAN_OUT
            above[indices] = np.add.reduce(blocks.take(indices, axis=0), axis=1)
        self._is_changed = True

    def set_all(self, values: Floats) -> None:
        """Sets the values of all leaves."""
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
        """Samples leaves in proportion to their values; returns their indices, [N].

        Fraction u selects the leaf where the sum of values, accumulated from the last leaf to the first, exceeds u
        times the total. A leaf with value zero is never sampled.

        Args:
            fractions: Uniform random numbers in [0, 1), [N].

        Raises:
            ValueError: All leaves are zero.
        """
        top_sums = self._summed_top()
        if not top_sums[-1] > 0.0:
            raise ValueError("cannot sample, because all priorities are zero")
        rest = fractions * top_sums[-1]
        from_end = top_sums[1:-1].searchsorted(rest, side="right")
        indices: Indices = len(self._levels[-1]) - 1 - from_end
        if self._blocks:
            rest -= top_sums.take(from_end)
            firsts = np.arange(0, len(indices) * FAN_OUT, FAN_OUT)
        for blocks in reversed(self._blocks):
            later = blocks.take(indices, axis=0).dot(_LATER)
            children = (later <= rest[:, None]).argmax(axis=1)
            rest -= later.take(firsts + children)
            indices = indices * FAN_OUT + children
        return self._without_zeros(indices)

    def _without_zeros(self, indices: Indices) -> Indices:
        """Moves sampled indices of zero leaves to the next positive leaf.

        Because of a rounding error in the last bit, a fraction's remainder within a block may equal the block's sum.
        The search then ends at the block's first leaf, which may be zero, instead of the first positive leaf.
        """
        values = self._levels[0]
        drawn = values.take(indices)
        if np.count_nonzero(drawn) < len(drawn):
            for at in (drawn == 0.0).nonzero()[0]:
                indices[at] += values[indices[at] :].nonzero()[0][0]
        return indices
