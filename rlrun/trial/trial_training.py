"""The training of a trial."""

from __future__ import annotations

from collections.abc import Callable

from rlrun.spec.experiment import TrialSpec
from rlrun.training.learner_factory import silent
from rlrun.training.training import Training


def training_of(trial: TrialSpec, announce: Callable[[str], None] = silent) -> Training:
    """Builds the training of a trial, without starting anything.

    Args:
        trial: The trial.
        announce: Called with a sentence before something that takes long.
    """
    bound = trial.stop.get("env_steps")
    return Training(
        trial.env,
        trial.learns,
        seed=trial.seed,
        total_env_steps=None if bound is None else int(bound) * trial.trials_sharing_update,
        announce=announce,
    )


def rebuilt(training: Training, trial: TrialSpec, announce: Callable[[str], None]) -> Training:
    """Ends a training and starts one with other settings in its place, whose iterations and seconds are counted on.

    Args:
        training: What runs; its successor computes updates as it does.
        trial: What to run from here on.
        announce: Called with a sentence when something is about to take long.
    """
    before = training.running
    training.close()
    successor = training_of(trial, announce)
    successor.update_executor = training.update_executor
    successor.running.iteration, successor.running.time_total_s = before.iteration, before.time_total_s
    return successor
