"""Runs trials under Ray Tune: each in an actor of its own, as many at once as fit.

What Tune knows is thrown away: its loggers and checkpoints are off, its state is never read back. It places the trials,
runs them side by side, and carries their numbers to schedulers.
"""

from __future__ import annotations

import json
import logging
import pickle
import shutil
import sys
from typing import Any

from ray.exceptions import OutOfMemoryError, RayError, RayTaskError
from ray.tune import Callback, CheckpointConfig, FailureConfig, RunConfig, TuneConfig, Tuner, grid_search
from ray.tune.experiment import Trial

from rlrun.errors import OutOfResources, TrainingFailed
from rlrun.tune.active_run import ActiveRun
from rlrun.tune.events import RunStopping, TrialEvent
from rlrun.tune.trainable import NOTES, ROW, AlgorithmTrainable, TrialError

STOP_FILE = "stop"


def run_under_tune(run: ActiveRun) -> None:
    """Runs the trials of a run on the Ray that this process belongs to.

    Args:
        run: The run; after an interrupt its running trials are INTERRUPTED and those that had not begun PENDING.
    """
    shutil.rmtree(run.directory.tune, ignore_errors=True)
    run.directory.tune.mkdir()
    tuner = Tuner(
        AlgorithmTrainable,
        # A grid over the trials, and nothing for Tune to draw or expand: the table is ours.
        param_space={
            **_shared_config(run),
            "trial": grid_search([trial.to_data() for trial in run.trials]),
        },
        tune_config=TuneConfig(
            reuse_actors=True,  # a trial that follows another in its actor starts without importing torch again
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=RunConfig(
            name="tune",
            storage_path=str(run.directory.tune),
            callbacks=[Reporter(run)],
            verbose=0,
            checkpoint_config=CheckpointConfig(checkpoint_frequency=0, checkpoint_at_end=False),
            failure_config=FailureConfig(max_failures=0),
        ),
    )
    # Of Tune's own result files, which are off, it would complain at length.
    logging.getLogger("ray.tune.analysis.experiment_analysis").setLevel(logging.ERROR)
    tuner.fit()
    shutil.rmtree(run.directory.tune, ignore_errors=True)


class Reporter(Callback):  # type: ignore[misc]  # ray has no types
    """Tells the watcher what Tune's trials do, and Tune what the user wants."""

    def __init__(self, run: ActiveRun) -> None:
        self._run = run
        self._stopping = False

    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        """Leaves nothing of it in the state that Tune pickles and nobody reads."""
        return (Callback, ())

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Passes the user's interrupt on to the trials: each saves and stops when its iteration is over."""
        if self._run.interrupts.received and not self._stopping:
            self._stopping = True
            (self._run.directory.tune / STOP_FILE).touch()
            self._run.tell(RunStopping(self._run.interrupts.received))

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Tells that a trial has been placed."""
        if not self._stopping:
            self._run.tell(TrialEvent(_trial_name(trial), "RUNNING"))

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Tells a trial's result as the trial wrote it."""
        for note in json.loads(result.get(NOTES, "[]")):
            self._run.note(_trial_name(trial), note)
        if ROW in result:
            self._run.tell(TrialEvent(_trial_name(trial), "RUNNING", json.loads(result[ROW])))

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Tells how a trial ended."""
        self._run.ended(_trial_name(trial))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Notes what a trial raised, as it was."""
        self._run.failed(_trial_name(trial), _error_of(trial))


def _shared_config(run: ActiveRun) -> dict[str, Any]:
    return {
        "run_directory": str(run.directory.path),
        "resume": run.resumed,
        "from_checkpoint": None if run.from_checkpoint is None else str(run.from_checkpoint.absolute()),
        "eager": run.eager,
        "stop_file": str(run.directory.tune / STOP_FILE),
        "import_paths": list(sys.path),
    }


def _trial_name(trial: Trial) -> str:
    name: str = trial.config["trial"]["name"]
    return name


def _error_of(trial: Trial) -> Exception:
    """Returns what ended a trial: the exception of its loop, or what became of its process."""
    try:
        # The file was written by this very process a moment ago.
        with open(trial.pickled_error_file, "rb") as file:
            error = pickle.load(file)
    except (OSError, TypeError):
        return TrainingFailed(f"{_trial_name(trial)} failed; the log says why")
    cause = error.cause if isinstance(error, RayTaskError) else error
    if isinstance(cause, TrialError):
        return cause.failure.error(_trial_name(trial))
    if isinstance(cause, OutOfMemoryError) or "running low on memory" in str(cause):
        return OutOfResources(f"{_trial_name(trial)}: its process was ended because the memory is full: {cause}")
    if isinstance(cause, RayError):
        return TrainingFailed(f"{_trial_name(trial)}: its process died: {cause}")
    return TrainingFailed(f"{_trial_name(trial)}: {cause}")
