"""Ray Tune executor: runs each trial in an actor, and as many trials at once as the resources allow.

Tune places the trials, runs them concurrently, and restarts trials whose process died. Tune's own loggers and
checkpoints are disabled, and its saved state is never read.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import pickle
import shutil
import time
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError
from ray.tune import Callback, CheckpointConfig, FailureConfig, RunConfig, TuneConfig, Tuner
from ray.tune.experiment import Trial
from typing_extensions import override

from rlrun.engine.messages.errors import DiskFull, OutOfResources, RlrunError, TrainingFailed
from rlrun.experiments.cluster.driver_files import RemoteFiles, start_driver_files
from rlrun.experiments.cluster.ray_internals import drop_private_copies
from rlrun.experiments.cluster.ray_session import end_of_ray, has_ended
from rlrun.experiments.cluster.trial_place import leave_token
from rlrun.experiments.runs.active_run import ActiveRun
from rlrun.experiments.runs.events import RunResources, TrialEvent
from rlrun.experiments.runs.outcome import NoFaultOfATrial
from rlrun.experiments.search.rules.population import Populations
from rlrun.experiments.search.rules_of_run import rule_of
from rlrun.experiments.search.suggestions import Suggestions
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.exploit import Exploit
from rlrun.experiments.trial.slow_iterations import ProgressMessages
from rlrun.experiments.tune.trainable import AGAIN, NOTES, ROW, AlgorithmTrainable, TrialError
from rlrun.experiments.tune.trial_scheduler import Departures, RuleScheduler, exploit_of, trial_name
from rlrun.experiments.tune.trial_source import TrialSource

RESOURCES_EVERY_S = 3.0
"""Seconds between two reports of the resources in use."""

LOW_MEMORY = "running low on memory"
"""Part of Ray's message about a process that was killed for lack of memory."""


def run_under_tune(run: ActiveRun, spans_machines: bool) -> None:
    """Runs the trials of a run under Ray Tune, on the Ray cluster that this process has joined.

    Args:
        run: The run. After an interrupt, running trials become INTERRUPTED and trials that had not started stay
            PENDING.
        spans_machines: Whether trials may run on machines without access to the run's directory.
    """
    run.capacity = dict(ray.cluster_resources())
    run.token = leave_token(run.directory.path)
    if spans_machines:
        run.disk, disk = start_driver_files(run.directory.path)
    rule, standings = rule_of(run)
    suggestions = Suggestions(run.experiment, run.directory) if run.experiment.searches else None
    if suggestions is not None:
        for standing in standings:  # the previous process may have ended before the searcher got some of them
            suggestions.observe(*standing)

    def exploit_for(trial: TrialSpec) -> Exploit | None:
        orders = rule.orders(trial.name) if isinstance(rule, Populations) else None
        return None if orders is None else exploit_of(trial, orders)

    shutil.rmtree(run.directory.tune, ignore_errors=True)
    run.directory.tune.mkdir()
    tuner = Tuner(
        AlgorithmTrainable,
        tune_config=TuneConfig(
            num_samples=-1,
            search_alg=TrialSource(run, suggestions, exploit_for),
            scheduler=RuleScheduler(run, rule, suggestions, Departures()),
            reuse_actors=True,  # an actor's next trial starts without importing torch again
            trial_name_creator=trial_name,
            trial_dirname_creator=trial_name,
        ),
        run_config=RunConfig(
            name="tune",
            storage_path=str(run.directory.tune),
            callbacks=[Reporter(run, suggestions)],
            verbose=0,
            checkpoint_config=CheckpointConfig(checkpoint_frequency=0, checkpoint_at_end=False),
            failure_config=FailureConfig(max_failures=run.experiment.failure.max_restarts),
        ),
    )
    # Without this, Tune warns at length that its own result files, which are turned off, are missing.
    logging.getLogger("ray.tune.analysis.experiment_analysis").setLevel(logging.ERROR)
    try:
        tuner.fit()
    except Exception as error:
        if os.strerror(errno.ENOSPC) in str(error):  # raised while Tune wrote its own files
            run.stop_for(DiskFull(f"Ray's own files: {str(error).strip().splitlines()[-1]}"))
        elif run.fault is None and has_ended():  # for example, looking up an actor on this machine failed
            run.stop_for(end_of_ray("raylet"))
        elif run.fault is None:
            raise
    if spans_machines:
        ray.kill(disk)
    shutil.rmtree(run.directory.tune, ignore_errors=True)
    for name, reason in run.stopped.items():
        run.directory.mark_stopped(name, reason)
    # The population is not over if a failed member may be retried, or one without a final checkpoint extended.
    is_over = run.experiment.checkpoint.at_end and not run.directory.unfinished(retry_failed=True)
    if isinstance(rule, Populations) and is_over:
        rule.close()


class Reporter(Callback):  # type: ignore[misc]  # ray has no types
    """Ray Tune callback that reports the progress of trials to the run's watcher and searcher.

    Args:
        run: The run.
        suggestions: Trials suggested by the run's searcher, or None.
    """

    def __init__(self, run: ActiveRun, suggestions: Suggestions | None) -> None:
        self._run = run
        self._suggestions = suggestions
        self._reported_at = 0.0
        self._progress = ProgressMessages(run.directory.path)

    @override
    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        """Pickles as a plain `Callback`: Tune saves its callbacks, but this saved state is never loaded."""
        return (Callback, ())

    @override
    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        if time.monotonic() - self._reported_at >= RESOURCES_EVERY_S:
            self._reported_at = time.monotonic()
            if has_ended():  # otherwise a trial that waits for resources would wait forever
                self._run.stop_for(end_of_ray("raylet"))
            total, free = ray.cluster_resources(), ray.available_resources()
            self._run.capacity = dict(total)  # nodes come and go
            cpus, gpus = (total.get(kind, 0.0) for kind in ("CPU", "GPU"))
            used = (max(0.0, cpus - free.get("CPU", 0.0)), max(0.0, gpus - free.get("GPU", 0.0)))
            self._run.tell(RunResources(used[0], cpus, used[1], gpus))
            running = [trial_name(trial) for trial in trials if trial.status == Trial.RUNNING]
            for name, text in self._progress.new(running).items():
                self._run.note(name, text)

    @override
    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._progress.forget(trial_name(trial))
        if not self._run.interrupts.received:
            self._run.tell(TrialEvent(trial_name(trial), "RUNNING"))

    @override
    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        for note in json.loads(result.get(NOTES, "[]")):
            self._run.note(trial_name(trial), note)
        if ROW in result and AGAIN not in result:
            self._progress.forget(trial_name(trial))
            place = f"{result.get('hostname', '')}:{result.get('pid', '')}"
            self._run.iterated(trial_name(trial), json.loads(result[ROW]), place=place)

    @override
    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._release(trial)
        error = _error_of(trial)
        if isinstance(error, NoFaultOfATrial):
            self._run.failed(trial_name(trial), error)
            return
        allowed = self._run.experiment.failure.max_restarts
        self._run.restarts(trial_name(trial), trial.run_metadata.num_failures, allowed, error)

    @override
    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._run.ended(trial_name(trial))
        self._end(trial, failed=False)

    @override
    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._release(trial)
        self._run.failed(trial_name(trial), _error_of(trial))
        self._end(trial, failed=True)

    def _end(self, trial: Trial, *, failed: bool) -> None:
        """Reports the end of a trial to the searcher, and frees Tune's data of the trial."""
        _forget(trial)
        if self._suggestions is not None and not self._run.interrupts.received:
            with self._run.stopping_when_full():
                self._suggestions.ended(trial_name(trial), failed=failed)

    def _release(self, trial: Trial) -> None:
        """Releases a trial's claim on its directory, so that a restart need not wait for a lost process."""
        if self._run.disk:
            RemoteFiles(self._run.disk).release(trial_name(trial))


def _forget(trial: Trial) -> None:
    """Frees data that Tune keeps about an ended trial, since the data adds up over many trials and is never read.

    The trial's name stays in the config, for `trial_name`.
    """
    trial.set_config({"trial": {"name": trial_name(trial)}})
    drop_private_copies(trial)
    trial.set_experiment_tag("")  # the tag would be a third copy of the config, as text
    trial.evaluated_params.clear()
    trial.run_metadata.metric_analysis.clear()
    trial.run_metadata.metric_n_steps.clear()
    trial.run_metadata.last_result.clear()


def _error_of(trial: Trial) -> Exception:
    """Error that ended a trial: the exception in its training loop, or the death of its process."""
    try:
        # This process has just written the file itself, so unpickling it is safe.
        with open(trial.pickled_error_file, "rb") as file:
            error = pickle.load(file)
    except (OSError, TypeError):
        return _error_in_text(trial)
    cause = error.cause if isinstance(error, RayTaskError) else error
    if isinstance(cause, TrialError):
        return cause.failure.error(trial_name(trial))
    if isinstance(cause, OutOfMemoryError) or LOW_MEMORY in str(cause):
        return OutOfResources(f"{trial_name(trial)}: its process was killed because memory ran out: {cause}")
    if isinstance(cause, RayError) and has_ended():
        return end_of_ray("raylet")
    if isinstance(cause, RayError):
        return TrainingFailed(f"{trial_name(trial)}: its process died: {cause}")
    return TrainingFailed(f"{trial_name(trial)}: {cause}")


def _error_in_text(trial: Trial) -> Exception:
    """Error that ended a trial, from Tune's text file, for errors that Tune has not pickled."""
    try:
        text = Path(trial.error_file).read_text()
    except (OSError, TypeError):
        return TrainingFailed(f"{trial_name(trial)} failed; the run's log has the error")
    return read_tune_error(trial_name(trial), text)


def read_tune_error(name: str, text: str) -> RlrunError:
    """Last error in a trial's Ray Tune error file; the only report of a trial that could not start for lack of memory.

    Args:
        name: Name of the trial.
        text: Content of the file: for each failure so far, a line with the number and time of the failure, followed by
            the exception.
    """
    error = text.rpartition("Failure # ")[2].partition("\n")[2].strip()
    if LOW_MEMORY in error:
        return OutOfResources(f"{name}: its process was killed because memory ran out: {error.splitlines()[0]}")
    return TrainingFailed(f"{name}: {error}")
