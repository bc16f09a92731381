"""Priorities: how often each replay index is drawn (NumPy)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.replay.sum_tree import SumTree

Indices = NDArray[np.int64]


class Priorities:
    """Prioritized draws: index i with probability P(i) = p_i / sum p, where p_i = (error_i + epsilon)^alpha.

    What has no error yet has the largest p that there ever was, so that it is drawn soon. What cannot be drawn has 0.

    Source:
        Schaul et al., "Prioritized Experience Replay", arXiv:1511.05952, eq. 1 and algorithm 1 (proportional).
    """

    def __init__(self, num_indices: int, alpha: float, epsilon: float) -> None:
        """Begins with nothing to draw.

        Args:
            num_indices: How many replay indices there are.
            alpha: Exponent of the errors.
            epsilon: What is added to them.
        """
        self.alpha = alpha
        self.epsilon = epsilon
        self._tree = SumTree(num_indices)
        self._largest = 1.0

    def add(self, indices: Indices, errors: NDArray[Any] | None = None) -> None:
        """Has indices be drawn from now on.

        Args:
            indices: Which ones, [N].
            errors: How much is to be learned from each, [N]; None if that is not known, and NaN where it is not.
        """
        if errors is None:
            self._tree.set(indices, self._largest)
            return
        known = self._powers(np.nan_to_num(errors, nan=0.0))
        self._tree.set(indices, np.where(np.isnan(errors), self._largest, known))

    def remove(self, indices: Indices) -> None:
        """Has indices [N] not be drawn any more."""
        self._tree.set(indices, 0.0)

    def update(self, indices: Indices, errors: NDArray[Any]) -> None:
        """Takes new errors [N] of indices [N]; where an index comes more than once, the last one stays."""
        self._tree.set(indices, self._powers(errors))

    def _powers(self, errors: NDArray[Any]) -> NDArray[np.float64]:
        """Returns the priorities of errors.

        One that is not finite counts as the largest: a run that diverges says so itself, and is not to break here.
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
        """Draws indices with repetition, one from each of `number` equal parts of the sum of all priorities.

        Raises:
            RuntimeError: If there is nothing to draw.
        """
        if not self._tree.total:
            raise RuntimeError("nothing can be drawn from a replay that holds no whole step")
        return self._tree.draw((generator.random(number) + np.arange(number)) / number)

    def weights(self, indices: Indices, beta: float) -> NDArray[np.float32]:
        """Returns what each of drawn indices counts in a loss, [N].

        w_i = (M P(i))^-beta / max_j (M P(j))^-beta, with M indices to draw from: both M and the sum of the priorities
        cancel.

        Args:
            indices: The indices of a minibatch, [N].
            beta: How far drawing some more often is made up for.

        Source:
            arXiv:1511.05952, section 3.4.
        """
        powers = self._tree.values.take(indices)
        weights: NDArray[np.float32] = ((powers / np.minimum.reduce(powers)) ** -beta).astype(np.float32)
        return weights

    @property
    def num_bytes(self) -> int:
        """Bytes that are set aside."""
        return self._tree.num_bytes

    def state(self) -> dict[str, Any]:
        """Returns all priorities."""
        return {"values": self._tree.values.copy(), "largest": self._largest}

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned."""
        self._tree.set_all(state["values"])
        self._largest = float(state["largest"])
        if not 0 < self._largest < math.inf:
            raise ValueError(f"the largest priority is {self._largest}")
