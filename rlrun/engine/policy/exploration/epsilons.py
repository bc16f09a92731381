"""Rules that assign each env slot, among the slots of all workers, a separate epsilon for exploration (NumPy)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

EpsilonSpread = Callable[[float, NDArray[np.int64], int], Floats]
"""Function of the scheduled `epsilon`, the indices of env slots [B] and the total number of slots; returns [B]."""


@dataclass(frozen=True)
class EpsilonLadder:
    """Ape-X epsilons: env slot i of N explores with epsilon^(1 + exponent * i / (N - 1)), or with epsilon if N = 1.

    Attributes:
        exponent: Difference between the exponents of the last and the first slot.

    Source:
        Horgan et al., arXiv:1803.00933, section 4.1, with exponent 7 and epsilon 0.4.
    """

    exponent: float

    def __call__(self, epsilon: float, slots: NDArray[np.int64], num_slots: int) -> Floats:
        """Returns the exploration probabilities of the env slots, [B].

        Args:
            epsilon: Exploration probability of the first slot.
            slots: Indices of the slots among all workers' slots, from 0, [B].
            num_slots: N, number of env slots of all workers.
        """
        rungs = slots / max(num_slots - 1, 1)
        found: Floats = (epsilon ** (1 + self.exponent * rungs)).astype(np.float32)
        return found


@dataclass(frozen=True)
class FinalEpsilons:
    """Epsilons that decay from 1 to a different final value in each group of env slots, as in asynchronous Q-learning.

    The final values are assigned to consecutive env slots, in proportion to their shares.

    Attributes:
        values: The final epsilons.
        shares: Fraction of the slots for each final epsilon; the sum is 1.

    Source:
        Mnih et al., arXiv:1602.01783, section 5.1, where each actor samples its final value with these probabilities.
    """

    values: tuple[float, ...]
    shares: tuple[float, ...]

    def __call__(self, epsilon: float, slots: NDArray[np.int64], num_slots: int) -> Floats:
        """Returns the exploration probabilities of the env slots, [B].

        Args:
            epsilon: Remaining fraction of the decay, from 1 (start) to 0 (final epsilons).
            slots: Indices of the slots among all workers' slots, from 0, [B].
            num_slots: N, number of env slots of all workers.
        """
        ends = np.cumsum(self.shares)
        which = np.searchsorted(ends, (slots + 0.5) / num_slots).clip(max=len(ends) - 1)
        final = np.array(self.values)[which]
        found: Floats = (final + (1 - final) * epsilon).astype(np.float32)
        return found
