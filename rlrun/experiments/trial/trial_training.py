"""Building a trial's `Training`, rebuilding it with other settings, and attributing errors to user code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rlrun.engine.envs.vector_env import EnvError, EnvStartFailed
from rlrun.engine.messages.errors import TrainingFailed
from rlrun.engine.training.assemble.learner_factory import common_update_executor, continued_executor, silent
from rlrun.engine.training.assemble.policies import clock_unit_of
from rlrun.engine.training.results.run_output import begin_output
from rlrun.engine.training.training import Training
from rlrun.experiments.spec.experiment import TrialSpec, actions_of
from rlrun.experiments.trial.user_code import failure_of_user_code


def training_of(trial: TrialSpec, announce: Callable[[str], None] = silent, *, eager: bool = False) -> Training:
    """Builds the `Training` for a trial, without starting processes or envs.

    Args:
        trial: The trial.
        announce: Callback with a message before a slow operation.
        eager: Whether compiled updates may run uncompiled on a machine without a compiler.

    Raises:
        CompilerMissing: The trial's updates need a compiler, this machine has none, and `eager` is False.
    """
    learns, steps = trial.learns, planned_env_steps(trial)
    actions = actions_of(trial.evaluation)
    training = Training(trial.env, learns, seed=trial.seed, actions=actions, total_env_steps=steps, announce=announce)
    training.description = replace(training.description, hooks=trial.hooks)
    if trial.update_executor is not None:
        training.update_executor = continued_executor(trial.update_executor, eager=eager)
    return training


def with_update_executor(trial: TrialSpec, why_no_kernels: str) -> TrialSpec:
    """Copies a trial and chooses how its updates are computed (the update executor), unless already chosen.

    Args:
        trial: The trial.
        why_no_kernels: Reason why the run's machines cannot use the compiled C kernels; "" if they can.

    Raises:
        CompilerMissing: The settings require compiled updates, and this machine has no compiler.
    """
    if trial.update_executor is not None:
        return trial
    algorithms = trial.learns.algorithms.values()
    chosen = common_update_executor(algorithms, planned_env_steps(trial), why_no_kernels)
    return trial.replace(update_executor=chosen)


def planned_env_steps(trial: TrialSpec) -> int | None:
    """Number of steps until a trial stops, times the number of trials that can reuse its compiled update.

    The steps are env steps, or SGD steps if the trial's schedules count SGD steps. None if no stop criterion limits
    them.
    """
    bound = trial.stop.bounds.get(clock_unit_of(trial.learns.first))
    return None if bound is None else int(bound) * trial.trials_sharing_update


def record_to(training: Training, output: Path, *, begun: str | None, from_start: bool) -> None:
    """Makes a `Training` write its steps to a data set; must be called before it starts.

    Args:
        training: The trial's `Training`.
        output: Folder of the data set.
        begun: Folder of the data set that the trial began to write before a resume, or None; the folder is removed if
            the trial restarts.
        from_start: Whether the trial starts without a checkpoint.

    Raises:
        UsageError: The folder contains other files.
    """
    if from_start:
        begin_output(output, is_own=begun == str(output))
    training.description = replace(training.description, output=output)


def rebuilt(training: Training, trial: TrialSpec, announce: Callable[[str], None]) -> Training:
    """Replaces a `Training` with one that has other settings and continues the counts of iterations and seconds.

    Args:
        training: The running `Training`, whose update executor (NumPy, torch or compiled) the new one keeps.
        trial: The trial with the new settings.
        announce: Callback with a message before a slow operation.
    """
    before = training.running
    written = None if before.output is None else before.output.state()
    hooks = None if before.hooks is None else before.hooks.state()
    training.close()
    successor = training_of(trial, announce)
    successor.description = replace(successor.description, output=training.description.output)
    successor.update_executor = training.update_executor
    if successor.running.output is not None and written is not None:
        successor.running.output.load_state(written)
    if successor.running.hooks is not None and hooks is not None:
        successor.running.hooks.load_state(hooks)
    successor.running.iteration, successor.running.time_total_s = before.iteration, before.time_total_s
    return successor


def failure_of(error: Exception, training: Training | None, directory: Path) -> TrainingFailed | None:
    """Training failure with the user's traceback, for an exception that passed through user code.

    Args:
        error: The exception.
        training: The trial's `Training`; None if it could not be built.
        directory: The trial's directory.

    Returns:
        The failure; None for an exception that did not pass through user code.
    """
    if isinstance(error, EnvStartFailed) and training is not None and training.iteration > 0:
        return EnvError(str(error))  # an evaluation env failed, since the training env has started
    algorithms = () if training is None else training.description.policies.algorithms.values()
    return failure_of_user_code(error, *map(type, algorithms), directory=directory)
