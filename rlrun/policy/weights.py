"""What a broadcast carries."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlrun.functional.moments import Moments


@dataclass(frozen=True)
class Weights:
    """A policy's parameters and statistics at one moment of learning.

    Attributes:
        version: How many broadcasts came before it.
        flat: All parameters, [P].
        filters: Running statistics by name: `observations/<part>` for the observation filter, `returns` for reward
            scaling.
        env_steps: Env steps taken when it was made, for schedules on the acting side.
    """

    version: int
    flat: NDArray[np.float32]
    filters: dict[str, Moments] = field(default_factory=dict)
    env_steps: int = 0
