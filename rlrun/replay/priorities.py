"""Proportional prioritization of replay (NumPy)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.replay.sum_tree import SumTree

Indices = NDArray[np.int64]


class Priorities:
    """Proportional prioritization: draws index i with P(i) = p_i / sum p, where p_i = (|error_i| + epsilon)^alpha.

    An index without an error yet has the largest p so far, so that it is drawn soon. One that cannot be drawn has 0.

    Source:
        Schaul et al., "Prioritized Experience Replay", arXiv:1511.05952, eq. 1 and algorithm 1 (proportional).
    """

    def __init__(self, num_indices: int, alpha: float, epsilon: float) -> None:
        """Starts with all priorities at 0, so that nothing can be drawn.

        Args:
            num_indices: Number of replay indices.
            alpha: Exponent of the errors.
            epsilon: Constant added to their absolute values.
        """
        self.alpha = alpha
        self.epsilon = epsilon
        self._tree = SumTree(num_indices)
        self._largest = 1.0

    def add(self, indices: Indices, errors: NDArray[Any] | None = None) -> None:
        """Makes indices drawable.

        Args:
            indices: The indices, [N].
            errors: Their TD errors, [N]; NaN where unknown, None if all are.
        """
        if errors is None:
            self._tree.set(indices, self._largest)
            return
        known = self._powers(np.nan_to_num(errors, nan=0.0))
        self._tree.set(indices, np.where(np.isnan(errors), self._largest, known))

    def remove(self, indices: Indices) -> None:
        """Makes indices [N] not drawable."""
        self._tree.set(indices, 0.0)

    def update(self, indices: Indices, errors: NDArray[Any]) -> None:
        """Sets the errors [N] of indices [N]; of an index that occurs twice, the last one counts."""
        self._tree.set(indices, self._powers(errors))

    def _powers(self, errors: NDArray[Any]) -> NDArray[np.float64]:
        """Priorities (|error| + epsilon)^alpha of errors.

        Errors that are not finite count as the largest so far: divergence is reported elsewhere and must not fail here.
        """
        powers: NDArray[np.float64] = (np.abs(errors, dtype=np.float64) + self.epsilon) ** self.alpha
        largest = float(np.maximum.reduce(powers, initial=0.0))
        if math.isfinite(largest):
            self._largest = max(self._largest, largest)
        else:
            finite = np.isfinite(powers)
            self._largest = float(powers.max(initial=self._largest, where=finite))
            powers[~finite] = self._largest
        return powers

    def draw(self, generator: np.random.Generator, number: int) -> Indices:
        """Stratified draw with replacement: one index from each of `number` equal parts of the sum of all priorities.

        Raises:
            RuntimeError: Nothing can be drawn.
        """
        if not self._tree.total:
            raise RuntimeError("nothing can be drawn from a replay that holds no whole step")
        return self._tree.draw((generator.random(number) + np.arange(number)) / number)

    def weights(self, indices: Indices, beta: float) -> NDArray[np.float32]:
        """Importance weights of drawn indices, normalised by the largest, [N].

        w_i = (M P(i))^-beta / max_j (M P(j))^-beta with M drawable indices. M and the sum of the priorities cancel.

        Args:
            indices: The indices of a minibatch, [N].
            beta: Exponent of the correction: 0 for none, 1 for full.

        Source:
            arXiv:1511.05952, section 3.4.
        """
        powers = self._tree.values.take(indices)
        weights: NDArray[np.float32] = ((powers / np.minimum.reduce(powers)) ** -beta).astype(np.float32)
        return weights

    @property
    def num_bytes(self) -> int:
        """Bytes allocated."""
        return self._tree.num_bytes

    def state(self) -> dict[str, Any]:
        """A copy of all priorities."""
        return {"values": self._tree.values.copy(), "largest": self._largest}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores `state()`."""
        self._tree.set_all(state["values"])
        self._largest = float(state["largest"])
        if not 0 < self._largest < math.inf:
            raise ValueError(f"the largest priority is {self._largest}")
