"""Windows of recorded episodes with returns-to-go (NumPy)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.data_set import DataSet, Indices
from rlrun.engine.datasets.transitions import Sequences, returns_to_go

RETURNS = "returns_to_go"
"""Column of the sum of rewards from a step to its episode's end, its own reward included, [S, K]."""

STEPS = "episode_steps"
"""Column of the number of each step in its episode, [S, K]."""


class Windows(Sequences):
    """View of a data set as windows of K consecutive steps, padded where the episode ends earlier.

    Each step begins a window. Columns are `obs`, `actions`, `returns_to_go`, `episode_steps` and `valid`, [S, K].
    Entries after the episode's end are zero and not valid.

    Args:
        data: The data set.
        length: K, number of steps in a window.
    """

    def __init__(self, data: DataSet, *, length: int) -> None:
        super().__init__(data, length=length, stride=1)

    @cached_property
    def _returns(self) -> NDArray[np.float64]:
        return returns_to_go(self.data, gamma=1.0)

    @override
    def gather(self, items: Indices) -> SampleBatch:
        """Reads windows by the numbers [S] of their first steps."""
        rows, steps, valid = self.located(items)
        batch = SampleBatch(self.read(rows, ("obs", "actions")), valid=valid, **{STEPS: steps})
        batch[RETURNS] = self._returns[rows].astype(np.float32)
        return batch.zero_invalid()
