"""How old the weights were that collected what is learned from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class PolicyLag:
    """Counts, for all steps learned from, the batches by which the learner was ahead of the weights that acted."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._steps = 0
        self._max = 0

    def add(self, version: int, versions: NDArray[Any]) -> None:
        """Counts a batch.

        Args:
            version: The learner's weights, before it learns from the batch.
            versions: The weights that acted in its steps, of any shape.
        """
        lags = version - np.asarray(versions)
        self._sum += float(lags.sum())
        self._steps += lags.size
        self._max = max(self._max, int(lags.max(initial=0)))

    def take(self) -> Mapping[str, float | None]:
        """Returns mean and maximum since the last call, None if nothing was learned, and starts afresh."""
        taken = {
            "policy_lag_mean": self._sum / self._steps if self._steps else None,
            "policy_lag_max": self._max if self._steps else None,
        }
        self._sum, self._steps, self._max = 0.0, 0, 0
        return taken
