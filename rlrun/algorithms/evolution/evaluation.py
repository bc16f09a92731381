"""Config and results of workers that evaluate candidates."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlrun.algorithms.evolution.candidates import Candidates
from rlrun.algorithms.evolution.exact_sums import ExactSums
from rlrun.engine.rollout.worker_config import WorkerConfig


@dataclass(frozen=True)
class EvaluationWorkerConfig(WorkerConfig):
    """Config of a worker that evaluates candidates.

    Attributes:
        candidates: Derivation of the candidates; must be set for a worker.
        episodes: Number of episodes per candidate.
        measures_overshoots: Whether to measure how far actions are outside the bounds of a Box.
    """

    candidates: Candidates | None = None
    episodes: int = 1
    measures_overshoots: bool = False


@dataclass(frozen=True)
class Returns:
    """Evaluation results of the candidates assigned to one worker.

    Attributes:
        generation: Index of the generation.
        candidates: Indices of the candidates, [n].
        returns: Mean unfiltered return of each candidate, [n].
        seen: Sums of raw observations and their squares, by the names in the observation filter.
        overshoots: Mean squared overshoot of each candidate's actions over the bounds of a Box, [n], averaged over
            steps and episodes, see `BoxMeanActions.overshoots`; None if not measured.
    """

    generation: int
    candidates: NDArray[np.int32]
    returns: NDArray[np.float64]
    seen: dict[str, ExactSums] = field(default_factory=dict)
    overshoots: NDArray[np.float64] | None = None
