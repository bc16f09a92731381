"""Config and results of workers that evaluate candidates."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlrun.algorithms.evolution.candidates import Candidates
from rlrun.algorithms.evolution.exact_sums import ExactSums
from rlrun.rollout.worker_config import WorkerConfig


@dataclass(frozen=True)
class EvaluationConfig(WorkerConfig):
    """Config of a worker that evaluates candidates.

    Attributes:
        candidates: The candidates; never None for a worker.
        episodes: Episodes with each candidate.
        measures_overshoots: Whether it also measures the distance of actions from the bounds of a Box.
    """

    candidates: Candidates | None = None
    episodes: int = 1
    measures_overshoots: bool = False


@dataclass(frozen=True)
class Returns:
    """Results of a worker's share of a generation.

    Attributes:
        generation: Which generation, from 0.
        candidates: Which candidates, [n].
        returns: Mean raw return of each, [n].
        seen: Sums of the raw observations that were acted on, by the names of the observation filter.
        overshoots: Mean squared distance of each one's actions from the bounds of a Box, [n], as in
            `BoxMeanActions.overshoots`, averaged over steps. None where it is not measured.
    """

    generation: int
    candidates: NDArray[np.int32]
    returns: NDArray[np.float64]
    seen: dict[str, ExactSums] = field(default_factory=dict)
    overshoots: NDArray[np.float64] | None = None
