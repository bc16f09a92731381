"""Worlds for benchmarks of what surrounds training."""

from __future__ import annotations

import time
from typing import Any

from rlrun.toys.known_optimum import ConstantReward, Step


class Sleeping(ConstantReward):
    """A `ConstantReward` whose every step takes its time and no CPU."""

    def __init__(self, seconds: float, **kwargs: Any) -> None:
        """Makes the world; a step takes so many seconds."""
        super().__init__(**kwargs)
        self._seconds = seconds

    def step(self, action: int) -> Step:
        """Sleeps and pays 1."""
        time.sleep(self._seconds)
        return super().step(action)
