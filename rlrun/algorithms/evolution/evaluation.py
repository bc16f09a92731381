"""What a worker is to evaluate, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlrun.algorithms.evolution.candidates import Candidates
from rlrun.algorithms.evolution.exact_sums import ExactSums
from rlrun.rollout.worker_config import WorkerConfig


@dataclass(frozen=True)
class EvaluationConfig(WorkerConfig):
    """What an evaluation worker is made from.

    Attributes:
        candidates: What it evaluates; None never stands where a worker is made.
        episodes: Episodes with each candidate.
        measures_overshoots: Whether it also measures how far the actions of a Box lie beyond its bounds.
    """

    candidates: Candidates | None = None
    episodes: int = 1
    measures_overshoots: bool = False


@dataclass(frozen=True)
class Returns:
    """What a worker found out about its share of a generation.

    Attributes:
        generation: Which generation, from 0.
        candidates: Which candidates, [n].
        returns: Mean raw return of each, [n].
        seen: Sums of the raw observations that were acted on, by the names of the observation filter.
        overshoots: How far the actions of each lay beyond the bounds of a Box, [n]: see `BoxMeanActions.overshoots`,
            of which these are means over steps. None where it is not measured.
    """

    generation: int
    candidates: NDArray[np.int32]
    returns: NDArray[np.float64]
    seen: dict[str, ExactSums] = field(default_factory=dict)
    overshoots: NDArray[np.float64] | None = None
