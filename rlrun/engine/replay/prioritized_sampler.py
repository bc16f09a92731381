"""Prioritized experience replay with priorities proportional to TD errors, and importance weights (NumPy)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.replay.row_sampler import Rows, RowSampler
from rlrun.engine.replay.stores import Indices
from rlrun.engine.replay.sum_tree import SumTree
from rlrun.engine.settings.config import Schedule
from rlrun.engine.settings.schedules import value_at


class PrioritizedSampler(RowSampler):
    """Samples row i with probability p_i / sum p, where p_i = (|error_i| + epsilon)^alpha for the row's TD error.

    A new row without a TD error receives the largest priority so far. A row that cannot be sampled has priority 0.

    Source:
        Schaul et al., "Prioritized Experience Replay", arXiv:1511.05952, eq. 1 and algorithm 1 (proportional).
    """

    learns_priorities = True

    def __init__(self, rows: Rows, alpha: float, beta: Schedule, epsilon: float) -> None:
        """Initializes all priorities to 0, so that no index can be sampled yet.

        Args:
            rows: The rows of the replay.
            alpha: Priority exponent: 0 samples uniformly, 1 in proportion to the error.
            beta: Importance-sampling exponent by env steps: 0 for no correction, 1 for full correction.
            epsilon: Constant added to the absolute TD errors.
        """
        self.alpha = alpha
        self.beta = beta
        self.epsilon = epsilon
        self._tree = SumTree(rows.num_indices)
        self._largest = 1.0

    @override
    def add(self, indices: Indices, priorities: NDArray[Any] | None) -> None:
        """Adds N rows with priorities from their TD errors.

        Rows without a TD error (NaN, or None for all) receive the largest priority so far.
        """
        if priorities is None:
            self._tree.set(indices, self._largest)
            return
        known = self._powers(np.nan_to_num(priorities, nan=0.0))
        self._tree.set(indices, np.where(np.isnan(priorities), self._largest, known))

    @override
    def remove(self, indices: Indices) -> None:
        """Sets the priorities of rows to 0, so that they are no longer sampled."""
        self._tree.set(indices, 0.0)

    @override
    def update(self, indices: Indices, priorities: NDArray[Any]) -> None:
        """Sets the priorities of rows from new TD errors; if a row occurs twice, the last error counts."""
        self._tree.set(indices, self._powers(priorities))

    def _powers(self, errors: NDArray[Any]) -> NDArray[np.float64]:
        """Returns the priorities (|error| + epsilon)^alpha for TD errors.

        Non-finite errors receive the largest priority so far: divergence is reported elsewhere and must not raise here.
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

    def stratified(self, generator: np.random.Generator, number: int) -> Indices:
        """Samples one row from each of `number` equal segments of the total priority.

        Raises:
            RuntimeError: All priorities are 0.
        """
        if not self._tree.total:
            raise RuntimeError("the replay buffer contains no complete step to sample")
        return self._tree.draw((generator.random(number) + np.arange(number)) / number)

    def weights(self, indices: Indices, beta: float) -> NDArray[np.float32]:
        """Returns the importance weights of N sampled rows, [N], divided by the largest of them.

        w_i = (M P(i))^-beta / max_j (M P(j))^-beta, where M is the number of rows that can be sampled. M and the sum of
        the priorities cancel.

        Args:
            indices: Indices of the sampled rows, [N].
            beta: Importance-sampling exponent: 0 for no correction, 1 for full correction.

        Source:
            arXiv:1511.05952, section 3.4.
        """
        powers = self._tree.values.take(indices)
        weights: NDArray[np.float32] = ((powers / np.minimum.reduce(powers)) ** -beta).astype(np.float32)
        return weights

    @override
    def draw(
        self, generator: np.random.Generator, batch_size: int, number: int, env_steps: int
    ) -> tuple[Indices, NDArray[np.float32]]:
        """Samples rows by priority; computes importance weights relative to the largest weight in each minibatch."""
        beta = value_at(self.beta, env_steps)
        drawn = [self.stratified(generator, batch_size) for _ in range(number)]
        weights = [self.weights(indices, beta) for indices in drawn]
        return np.concatenate(drawn), np.concatenate(weights)

    @property
    @override
    def num_bytes(self) -> int:
        """Bytes allocated for the priorities and their sums."""
        return self._tree.num_bytes

    @override
    def state(self) -> dict[str, Any]:
        """Returns a copy of all priorities, for a checkpoint."""
        return {"values": self._tree.values.copy(), "largest": self._largest}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the priorities from the dict that `state()` returned."""
        self._tree.set_all(state["values"])
        self._largest = float(state["largest"])
        if not 0 < self._largest < math.inf:
            raise ValueError(f"invalid largest priority {self._largest}")
