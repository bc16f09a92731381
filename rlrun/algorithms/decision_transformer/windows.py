"""Windows of recorded episodes with returns-to-go (NumPy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.datasets.data_set import DataSet, Indices
from rlrun.datasets.transitions import returns_to_go

RETURNS = "returns_to_go"
"""Column of the sum of rewards from a step to its episode's end, its own reward included, [S, K]."""

STEPS = "episode_steps"
"""Column of the number of each step in its episode, [S, K]."""


class Windows:
    """Windows of K consecutive steps of one episode; each step begins one, padded where the episode ends earlier.

    Columns are `obs`, `actions`, `returns_to_go`, `episode_steps` and `valid`, [S, K]. Entries after the episode's end
    are zero and not valid.

    Args:
        data: The data set.
        length: K, steps in a window.
    """

    def __init__(self, data: DataSet, *, length: int) -> None:
        self.data = data
        self.length = length
        self._returns: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return self.data.num_steps

    def gather(self, items: Indices) -> SampleBatch:
        """Reads windows by the number of their first step, [S]."""
        if self._returns is None:
            self._returns = returns_to_go(self.data, gamma=1.0)
        firsts, ends = self.data.rows_of_steps(items), self.data.ends_of_steps(items)
        starts = self.data.episodes.starts
        begins = starts[starts.searchsorted(firsts, side="right") - 1]
        rows = firsts[:, None] + np.arange(self.length)
        valid = rows < ends[:, None]
        rows = np.minimum(rows, ends[:, None] - 1)
        read = self.data.rows(rows.ravel(), ("obs", "actions")).map(
            lambda leaf: leaf.reshape(*rows.shape, *leaf.shape[1:])
        )
        batch = SampleBatch(read, valid=valid, **{STEPS: rows - begins[:, None]})
        batch[RETURNS] = self._returns[rows].astype(np.float32)
        return batch.zero_invalid()
