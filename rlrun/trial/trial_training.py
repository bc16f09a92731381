"""Construction of a trial's training, and reconstruction with other settings."""

from __future__ import annotations

from collections.abc import Callable

from rlrun.spec.experiment import TrialSpec
from rlrun.training.learner_factory import silent
from rlrun.training.policies import clock_unit_of
from rlrun.training.training import Training


def training_of(trial: TrialSpec, announce: Callable[[str], None] = silent) -> Training:
    """Builds the training of a trial, without starting processes or envs.

    Args:
        trial: The trial.
        announce: Callback with a message before a slow operation.
    """
    bound = trial.stop.get(clock_unit_of(trial.learns.first))
    return Training(
        trial.env,
        trial.learns,
        seed=trial.seed,
        total_env_steps=None if bound is None else int(bound) * trial.trials_sharing_update,
        announce=announce,
    )


def rebuilt(training: Training, trial: TrialSpec, announce: Callable[[str], None]) -> Training:
    """Replaces a training with one that has other settings and continues the counts of iterations and seconds.

    Args:
        training: The running training; the new one uses the former update executor.
        trial: The trial with the new settings.
        announce: Callback with a message before a slow operation.
    """
    before = training.running
    training.close()
    successor = training_of(trial, announce)
    successor.update_executor = training.update_executor
    successor.running.iteration, successor.running.time_total_s = before.iteration, before.time_total_s
    return successor
