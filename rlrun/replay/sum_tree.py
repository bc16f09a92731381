"""A sum tree: draws indices in proportion to their values, with updates and draws in logarithmic time (NumPy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]

FAN_OUT = 32
"""Children of a node. NumPy adds 32 numbers in hardly more time than two, so a wide and shallow tree is fastest."""
_LARGEST_TOP = 1024
_LATER = np.tri(FAN_OUT, k=-1)
"""Matrix by which a block [32] becomes, at each of its entries, the sum of the later ones."""


class SumTree:
    """A sum tree over non-negative numbers.

    Whenever a number changes, the sums above it are computed again from their children. So rounding errors do not
    accumulate: the sums depend on the present numbers alone, to the last bit, not on their history.
    """

    def __init__(self, size: int) -> None:
        """Starts with zeros.

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
        # Cumulative sums of the top level from its end, after a zero; updated only when something is drawn.
        self._top_sums = np.zeros(size + 1)
        self._is_changed = False

    @property
    def values(self) -> Floats:
        """The leaves, [size]; not to be written to."""
        return self._levels[0][: self.size]

    @property
    def total(self) -> float:
        """The sum of all leaves."""
        return float(self._summed_top()[-1])

    @property
    def num_bytes(self) -> int:
        """Bytes allocated."""
        return sum(level.nbytes for level in self._levels)

    def set(self, indices: Indices, values: Floats | float) -> None:
        """Sets leaves; of an index that occurs twice, the last value counts.

        Args:
            indices: The leaves, [N].
            values: Their new values, finite, [N], or one for all.
        """
        self._levels[0][indices] = values
        for blocks, above in zip(self._blocks, self._levels[1:], strict=True):
            indices = indices // FAN_OUT
            above[indices] = np.add.reduce(blocks.take(indices, axis=0), axis=1)
        self._is_changed = True

    def set_all(self, values: Floats) -> None:
        """Sets all leaves, [size]."""
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
        """Indices at which the cumulative sum, from the last leaf backwards, first exceeds fractions of the total.

        A leaf that is zero is never drawn.

        Args:
            fractions: Numbers in [0, 1), [N].

        Raises:
            ValueError: All leaves are zero.
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
            later = blocks.take(indices, axis=0).dot(_LATER)
            children = (later <= rest[:, None]).argmax(axis=1)
            rest -= later.take(firsts + children)
            indices = indices * FAN_OUT + children
        return self._without_zeros(indices)

    def _without_zeros(self, indices: Indices) -> Indices:
        """Moves drawn indices of zeros to the next leaf above zero.

        By a rounding error in the last bit, the rest of a fraction within a block may equal the block's sum. It then
        leads to the block's first leaf, which may be zero; the first one above zero was meant.
        """
        values = self._levels[0]
        drawn = values.take(indices)
        if np.count_nonzero(drawn) < len(drawn):
            for at in (drawn == 0.0).nonzero()[0]:
                indices[at] += values[indices[at] :].nonzero()[0][0]
        return indices
