"""Evaluation of a trial while it trains, always on the same episodes."""

from __future__ import annotations

import time
from typing import Any

from rlrun.functional.seeding import child_seed
from rlrun.spec.experiment import EVALUATION_KEYS, TrialSpec
from rlrun.training.training import Training

EVALUATION = "evaluation/"
"""What the names of its metrics begin with."""


def evaluated(training: Training, trial: TrialSpec, *, is_last: bool) -> dict[str, Any]:
    """Evaluates a training where its trial wants that after this iteration, and at the end.

    Args:
        training: The training.
        trial: What says when and how.
        is_last: Whether the trial is over with this iteration.

    Returns:
        What belongs to the iteration's result: metrics, each None where no evaluation is due; {} if there are none.
    """
    evaluation = trial.evaluation
    if evaluation is None:
        return {}
    if training.iteration % evaluation.every and not is_last:
        return {**{f"{EVALUATION}{name}": None for name in EVALUATION_KEYS}, "time/evaluation_s": 0.0}
    began = time.perf_counter()
    found = training.evaluate(
        evaluation.episodes,
        seed=child_seed(trial.seed, "evaluation"),
        explore=evaluation.stochastic,
        env=evaluation.env,
    )
    values = (found.mean, found.std, found.min, found.max, found.len_mean)
    measured = {f"{EVALUATION}{name}": value for name, value in zip(EVALUATION_KEYS, values, strict=True)}
    return {**measured, "time/evaluation_s": time.perf_counter() - began}
