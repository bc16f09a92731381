"""What a broadcast carries."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlrun.config import Schedule
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
        schedules: Settings that change with the env steps, by name, for who learns on the acting side.
        optimizer: The optimizer's tensors by name, if who learns on the acting side is to go on from these parameters
            instead of its own.
        target: The target network's parameters, [P], for who learns on the acting side with one; None if it is to keep
            those it has.
    """

    version: int
    flat: NDArray[np.float32]
    filters: dict[str, Moments] = field(default_factory=dict)
    env_steps: int = 0
    schedules: dict[str, Schedule] = field(default_factory=dict)
    optimizer: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    target: NDArray[np.float32] | None = None
