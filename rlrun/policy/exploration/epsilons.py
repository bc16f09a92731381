"""Probabilities to explore, one for each env slot of all workers (NumPy)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

EpsilonSpread = Callable[[float, NDArray[np.int64], int], Floats]
"""From the scheduled `epsilon`, the numbers of env slots [B] and the number of all slots to each one's own [B]."""


@dataclass(frozen=True)
class EpsilonLadder:
    """Gives the i-th of N env slots epsilon^(1 + exponent * i / (N - 1)); a slot alone has epsilon itself.

    Attributes:
        exponent: By how much the power of the last slot exceeds that of the first.

    Source:
        Horgan et al., arXiv:1803.00933, section 4.1, with exponent 7 and epsilon 0.4.
    """

    exponent: float

    def __call__(self, epsilon: float, slots: NDArray[np.int64], num_slots: int) -> Floats:
        """Returns the slots' probabilities to explore, [B].

        Args:
            epsilon: The first slot's.
            slots: The slots' numbers among those of all workers, from 0, [B].
            num_slots: N, how many those are.
        """
        rungs = slots / max(num_slots - 1, 1)
        found: Floats = (epsilon ** (1 + self.exponent * rungs)).astype(np.float32)
        return found


@dataclass(frozen=True)
class FinalEpsilons:
    """Lets every env slot go from 1 towards a final probability of its own.

    Of N slots the first ones go to the first value, as many as its share says, the next ones to the second.

    Attributes:
        values: The final probabilities.
        shares: Which part of the slots each is for; they add up to 1.

    Source:
        Mnih et al., arXiv:1602.01783, section 5.1, where every actor draws its final value with these probabilities.
    """

    values: tuple[float, ...]
    shares: tuple[float, ...]

    def __call__(self, epsilon: float, slots: NDArray[np.int64], num_slots: int) -> Floats:
        """Returns the slots' probabilities to explore, [B].

        Args:
            epsilon: Which part of the way is left, from 1 to 0.
            slots: The slots' numbers among those of all workers, from 0, [B].
            num_slots: N, how many those are.
        """
        ends = np.cumsum(self.shares)
        which = np.searchsorted(ends, (slots + 0.5) / num_slots).clip(max=len(ends) - 1)
        final = np.array(self.values)[which]
        found: Floats = (final + (1 - final) * epsilon).astype(np.float32)
        return found
