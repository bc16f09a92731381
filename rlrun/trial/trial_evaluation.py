"""Evaluation of a trial while it trains, always on the same episodes."""

from __future__ import annotations

import time
from typing import Any

from rlrun.functional.seeding import child_seed
from rlrun.spec.experiment import EVALUATION_KEYS, TrialSpec
from rlrun.training.training import Training
from rlrun.worlds.world_config import WorldConfig

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
        names = [*EVALUATION_KEYS, *(_of_policy(policy) for policy in _policies(training))]
        return {**{f"{EVALUATION}{name}": None for name in names}, "time/evaluation_s": 0.0}
    began = time.perf_counter()
    found = training.evaluate(
        evaluation.episodes,
        seed=child_seed(trial.seed, "evaluation"),
        explore=evaluation.stochastic,
        env=evaluation.env,
    )
    values: tuple[float | None, ...] = (found.mean, found.std, found.min, found.max, found.len_mean)
    measured = dict(zip(EVALUATION_KEYS, values, strict=True))
    for policy in _policies(training):
        own = found.policies[policy]
        measured[_of_policy(policy)] = own.mean if own.returns else None
    return {
        **{f"{EVALUATION}{name}": value for name, value in measured.items()},
        "time/evaluation_s": time.perf_counter() - began,
    }


def _policies(training: Training) -> tuple[str, ...]:
    """Returns the policies that are reported one by one: those of a world."""
    return tuple(training.policies.algorithms) if isinstance(training.env, WorldConfig) else ()


def _of_policy(policy: str) -> str:
    return f"policies/{policy}/episode_return_mean"
