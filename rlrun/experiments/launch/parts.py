"""Execution of all experiments of one `run` or `resume` call, one after another, each in this process or on Ray."""

from __future__ import annotations

import os
import platform
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rlrun.engine.envs.vector_env import EnvStartFailed
from rlrun.engine.kernels.library import why_no_library
from rlrun.engine.messages.errors import (
    DiskFull,
    EnvironmentUnusable,
    RayEnded,
    RlrunError,
    RunTakenOver,
    UsageError,
)
from rlrun.engine.processes.process_end import end_process
from rlrun.engine.training.assemble.learner_factory import may_have_kernels, why_no_kernels_here
from rlrun.experiments.cluster.growth import NodeWait
from rlrun.experiments.cluster.ray_session import (
    RaySession,
    warn_if_open_to_everyone,
    why_no_kernels_on_nodes,
)
from rlrun.experiments.launch.chain import initialize_from_run
from rlrun.experiments.runs.active_run import ActiveRun, Interrupts
from rlrun.experiments.runs.copy_owner import end_without_copy
from rlrun.experiments.runs.driver_log import DriverLog
from rlrun.experiments.runs.events import RunFinished, RunNote, RunStarted, RunWaiting, TrialEvent, Watcher
from rlrun.experiments.runs.outcome import call_failure, resume_command, with_resume_advice
from rlrun.experiments.runs.run_directory import Executor, RunDirectory
from rlrun.experiments.runs.run_upload import copied, owned
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.runs.trial_status import is_over
from rlrun.experiments.spec.experiment import Experiment, TrialSpec
from rlrun.experiments.trial.slow_iterations import slow_iterations_noted
from rlrun.experiments.trial.trial_loop import TrialLoop
from rlrun.experiments.trial.trial_training import with_update_executor

CANNOT_START = (UsageError, EnvironmentUnusable, EnvStartFailed)
"""Errors of trials that cannot start: the spec or the env must be corrected, and a new run's directory is deleted."""


@dataclass(frozen=True)
class LaunchedExperiment:
    """One experiment of a `run` or `resume` call, with the directory of its run.

    Attributes:
        directory: Directory of the run.
        experiment: The experiment.
        trials: The trials to run; a searcher adds more.
        executor: Executor of the trials: this process or Ray.
        resumed: Whether the trials are resumed.
    """

    directory: RunDirectory
    experiment: Experiment
    trials: list[TrialSpec]
    executor: Executor
    resumed: bool

    @property
    def examples(self) -> list[TrialSpec]:
        """Trials of the experiment, or a single example trial if a searcher suggests the trials."""
        return self.trials or [self.experiment.first_trial()]

    @property
    def has_trials(self) -> bool:
        """Whether the experiment has trials to run.

        A later stage has no trials if all seeds failed in the previous stage.
        """
        return bool(self.trials) or self.experiment.searches

    @property
    def continuation(self) -> str:
        """Command that continues the experiment if it has not ended."""
        shard = self.directory.shard
        return resume_command(self.directory.path) if shard is None else f"the same command with --shard {shard}"

    @property
    def uses_ray(self) -> bool:
        """Whether Ray is needed, either to run the trials or for a local trial's remote workers and learners."""
        return self.executor == "ray" or any(trial.needs_ray for trial in self.trials)

    @property
    def needs_ray(self) -> bool:
        """Whether the experiment cannot run without Ray, not even one trial after another."""
        is_steered = self.experiment.scheduler is not None or self.experiment.searches
        return is_steered or any(trial.needs_ray for trial in self.trials)


def run_all(
    parts: Sequence[LaunchedExperiment],
    *,
    address: str | None,
    wait_for_nodes_s: float | None,
    eager: bool,
    watch: Watcher,
    executor: Executor | None = None,
) -> list[TrialResult]:
    """Runs experiments one after the other, in one shared Ray session.

    Args:
        parts: The experiments.
        address: The Ray cluster to join, or None.
        wait_for_nodes_s: Seconds to wait for cluster nodes; None for the default.
        eager: Whether compiled updates may continue uncompiled on a machine without a compiler.
        watch: Function called with each event of the runs.
        executor: The user's choice of executor; if there is none, a message says when Ray could be avoided.

    Raises:
        RlrunError: If runs have not ended. Otherwise, if all trials of an experiment failed, the first trial's error.
    """
    actives: list[ActiveRun] = []

    def on_interrupt() -> None:
        for active in actives[-1:]:
            active.stopping()

    interrupts = Interrupts(on_interrupt)
    with ExitStack() as locks:
        for part in parts:
            locks.enter_context(part.directory.locked())
        try:
            on_ray = [trial for part in parts if part.uses_ray for trial in part.examples]
            ray = RaySession(
                on_ray,
                address,
                [part.experiment for part in parts],
                wait_for_nodes_s,
                is_optional=executor is None and not any(part.needs_ray for part in parts),
            )
            _run_parts(parts, actives, interrupts, ray, eager=eager, watch=watch)
        except UsageError:  # the cluster does not exist or is too small; nothing has started, so nothing is kept
            _discard_new(parts)
            raise
        except KeyboardInterrupt:  # by the second interrupt
            interrupts.received = interrupts.received or "SIGINT"
        ends = _settled(parts)
    failure = _failure(parts, actives, ends, interrupts)
    for active in actives:
        if not active.resumed and active.errors and all(isinstance(e, CANNOT_START) for e in active.errors.values()):
            active.directory.discard_if_empty()
    if failure is not None:
        raise failure
    return [trial for trials in ends for trial in trials]


def _discard_new(parts: Sequence[LaunchedExperiment]) -> None:
    """Removes the directories of new runs in which nothing has started."""
    for part in parts:
        if not part.resumed:
            part.directory.discard_if_empty()


def _settled(parts: Sequence[LaunchedExperiment]) -> list[list[TrialResult]]:
    """Settles the runs, after the processes of all trials have ended with Ray; returns their results by experiment."""
    for part in parts:
        part.directory.settle()
    return [part.directory.results() for part in parts]


def _failure(
    parts: Sequence[LaunchedExperiment],
    actives: Sequence[ActiveRun],
    ends: Sequence[Sequence[TrialResult]],
    interrupts: Interrupts,
) -> BaseException | None:
    """Error of a call: the result of `call_failure`, else the first error of an experiment whose trials all failed."""
    found = [trial for trials in ends for trial in trials]
    errors = {active.directory.path / name: error for active in actives for name, error in active.errors.items()}
    fault = next((active.fault for active in actives if active.fault is not None), None)
    left = [part.continuation for part, trials in zip(parts, ends, strict=True) if is_left(part, trials)]
    failure = call_failure(found, left, signal=interrupts.received, fault=fault, errors=errors)
    if failure is not None:
        return failure
    for active, trials in zip(actives, ends, strict=True):
        if active.errors and all(trial.status == "ERROR" for trial in trials):
            return next(iter(active.errors.values()))
    return None


def _run_parts(
    parts: Sequence[LaunchedExperiment],
    actives: list[ActiveRun],
    interrupts: Interrupts,
    ray: RaySession,
    *,
    eager: bool,
    watch: Watcher,
) -> None:
    """Runs experiments until one is stopped; each is appended to `actives` before it starts."""
    began = time.monotonic()

    def lost(failure: RlrunError) -> None:
        _end_process(parts, actives[-1], began, failure)

    with DriverLog() as log, ExitStack() as stack:

        def taken_over(loss: RunTakenOver) -> None:  # trials on Ray end with this process
            with log.printing_to_terminal():
                end_without_copy(loss)

        # Entered before `interrupts`, so that Ctrl-C ends the wait for a former owner.
        owners = [stack.enter_context(owned(part.directory, taken_over)) for part in parts]
        stack.enter_context(interrupts)
        session = stack.enter_context(ray)
        for part, owner in zip(parts, owners, strict=True):
            initialize_from_run(part.directory, part.trials)
            active = ActiveRun(
                part.directory,
                part.experiment,
                part.trials,
                part.resumed,
                eager,
                interrupts,
                log,
                watch,
                owner,
            )
            actives.append(active)
            with active.stopping_when_full():
                _run_part(part, active, session, lost)
            if active.watch_error is not None:
                raise active.watch_error
            if interrupts.received:
                return


def _end_process(parts: Sequence[LaunchedExperiment], active: ActiveRun, began: float, failure: RlrunError) -> None:
    """Ends this process while its main thread hangs in a call to Ray.

    Args:
        parts: All experiments of the call.
        active: The experiment that is running.
        began: Start of the call, on the monotonic clock.
        failure: The reason: Ray has lost its gcs_server, a cluster has lost its head, or a cluster cannot be joined.
    """
    for part in parts:
        part.directory.settle()
    trials = tuple(active.directory.results())
    active.tell(RunFinished(active.directory.path, trials, time.monotonic() - began))
    if isinstance(failure, RayEnded):
        left = [part.continuation for part in parts if is_left(part, part.directory.results())]
        failure = with_resume_advice(failure, left)
    else:
        _discard_new(parts)
    with active.log.printing_to_terminal():
        print(f"Error: {failure}", file=sys.stderr, flush=True)
    end_process(failure)


def is_left(part: LaunchedExperiment, trials: Sequence[TrialResult]) -> bool:
    """Whether an experiment is unfinished: some of its trials have not ended, or its searcher will suggest more."""
    is_done = all(is_over(trial.status) for trial in trials)
    return not is_done or remaining_suggestions(part.experiment, part.directory) > 0


def remaining_suggestions(experiment: Experiment, directory: RunDirectory) -> int:
    """Number of trials that an experiment's searcher has not suggested yet."""
    if not experiment.searches:
        return 0
    configurations = {directory.trial(name).configuration for name in directory.table.trials}
    return max(0, experiment.num_samples - len(configurations)) * len(experiment.seeds)


def _run_part(
    part: LaunchedExperiment, active: ActiveRun, session: RaySession, lost: Callable[[RlrunError], None]
) -> None:
    """Runs one experiment's trials by its executor; sends the events of its start and end to the watcher."""
    began = time.monotonic()
    if part.uses_ray:
        active.log.send_to(part.directory.log)
    else:
        active.log.close()
    active.tell(
        RunStarted(
            experiment=part.directory.table.experiment,
            directory=part.directory.path,
            executor=part.executor,
            uses_ray=part.uses_ray,
            trials=tuple(part.trials),
            resumed=part.resumed,
            terminal=active.log.terminal,
            expected=len(part.trials) + remaining_suggestions(part.experiment, part.directory),
        )
    )
    if part.uses_ray:
        with active.log.printing_to_terminal():
            warn_if_open_to_everyone()
        _start_ray(session, active, lost)
    if active.interrupts.received:
        active.stopping()
    else:
        with copied(part.directory, active.owner):
            _run_trials(part, active, session)
    active.tell(RunFinished(part.directory.path, tuple(part.directory.results()), time.monotonic() - began))


def _start_ray(session: RaySession, active: ActiveRun, lost: Callable[[RlrunError], None]) -> None:
    """Starts or joins Ray, and waits for nodes; meanwhile SIGTERM is handled by Ray until it has started.

    Raises:
        EnvironmentUnusable: If Ray does not start.
        UsageError: If a cluster cannot be joined, or does not provide a trial's resources in time.
        KeyboardInterrupt: If SIGTERM was received; no trial has started yet.
    """
    interrupts = active.interrupts

    try:
        session.start(lambda text: active.tell(RunNote(text)), lost)
        interrupts.listen()
        session.wait_for_nodes(
            lambda wait: active.tell(waiting_event(wait)), is_stopped=lambda: bool(interrupts.received)
        )
    except SystemExit as error:  # raised by Ray's handler of SIGTERM
        if error.code != signal.SIGTERM:
            raise
        interrupts.received = interrupts.received or signal.SIGTERM.name
        raise KeyboardInterrupt from None


def waiting_event(wait: NodeWait) -> RunWaiting:
    """Event that reports a trial waiting for cluster nodes."""
    autoscaler = wait.autoscaler
    return RunWaiting(wait.trial, wait.needs, wait.seconds, wait.limit_s, autoscaler.starting, autoscaler.failed)


def _why_no_kernels(part: LaunchedExperiment, session: RaySession, active: ActiveRun) -> str:
    """Reason why a machine of the run cannot use the kernels in C; "" if all can, or no trial would."""
    algorithms = [each for trial in part.examples for each in trial.learns.algorithms.values()]
    if not any(may_have_kernels(each) and each.config.compile is not False for each in algorithms):
        return ""
    if not part.uses_ray or not session.spans_machines:
        return why_no_library() if part.executor == "ray" else why_no_kernels_here()
    why_not = why_no_kernels_on_nodes()
    if why_not:
        with active.log.printing_to_terminal():
            warnings.warn(f"updates are computed by NumPy instead of C kernels: {why_not}", stacklevel=2)
    return why_not


def _run_trials(part: LaunchedExperiment, active: ActiveRun, session: RaySession) -> None:
    if not part.has_trials:
        return
    active.why_no_kernels = _why_no_kernels(part, session, active)
    active.trials = [with_update_executor(trial, active.why_no_kernels) for trial in active.trials]
    if part.executor == "ray":
        from rlrun.experiments.tune.tune_executor import run_under_tune

        run_under_tune(active, session.spans_machines)
    else:
        run_locally(active)


def run_locally(run: ActiveRun) -> None:
    """Runs the trials of a run in this process; a failed trial does not stop the others.

    Args:
        run: The run; trials that have not started before an interrupt stay PENDING.
    """
    for trial in run.trials:
        if run.interrupts.received:
            return
        run.tell(TrialEvent(trial.name, "RUNNING", place=f"{platform.node()}:{os.getpid()}"))
        try:
            _run_with_restarts(run, trial)
        except Exception as error:
            run.failed(trial.name, error)
        else:
            run.ended(trial.name)


def _run_with_restarts(run: ActiveRun, trial: TrialSpec) -> None:
    for restart in range(1, trial.max_restarts + 1):
        try:
            _run_trial(run, trial, resume=run.resumed or restart > 1)
        except DiskFull:
            raise
        except Exception as error:
            run.restarts(trial.name, restart, trial.max_restarts, error)
        else:
            return
    _run_trial(run, trial, resume=run.resumed or trial.max_restarts > 0)


def _run_trial(run: ActiveRun, trial: TrialSpec, *, resume: bool) -> None:
    start = run.directory.record(trial.name).from_checkpoint
    loop = TrialLoop(
        trial,
        run.directory.path / trial.name,
        resume=resume,
        from_checkpoint=None if start is None else Path(start),
        eager=run.eager,
        announce=lambda text: run.note(trial.name, text),
        confirm=run.confirm_owner,
    )
    with loop:
        if loop.resumption is not None:
            run.note(trial.name, loop.resumption.message)
        try:
            with slow_iterations_noted(loop, lambda text: run.note(trial.name, text)):
                while not loop.done and not run.interrupts.received:
                    run.iterated(trial.name, loop.step())
        except KeyboardInterrupt:
            loop.interrupt()
            raise
        if not loop.done:
            run.stopping()
            loop.interrupt()
