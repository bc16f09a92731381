"""Policy lag: number of weight versions between the learner and the behavior policy that collected a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class PolicyLag:
    """Running mean and maximum of the policy lag over training steps."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._steps = 0
        self._max = 0

    def add(self, version: int, versions: NDArray[Any]) -> None:
        """Adds the policy lag of each step of a batch.

        Args:
            version: Version of the learner's weights, before it learns from the batch.
            versions: Versions of the behavior weights of its steps, of any shape.
        """
        lags = version - np.asarray(versions)
        self._sum += float(lags.sum())
        self._steps += lags.size
        self._max = max(self._max, int(lags.max(initial=0)))

    def take(self) -> Mapping[str, float | None]:
        """Returns and resets the mean and maximum policy lag since the last call; None without steps."""
        taken = {
            "policy_lag_mean": self._sum / self._steps if self._steps else None,
            "policy_lag_max": self._max if self._steps else None,
        }
        self._sum, self._steps, self._max = 0.0, 0, 0
        return taken
