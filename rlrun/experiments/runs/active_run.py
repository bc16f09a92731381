"""State of a run in progress, which the executor (local or Ray Tune) reads and updates."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

from rlrun.engine.envs.env_watch import interrupt_requested
from rlrun.engine.envs.step_marks import stepped_env
from rlrun.engine.messages.errors import DiskFull, exit_code_of
from rlrun.experiments.runs.copy_owner import CopyOwner
from rlrun.experiments.runs.driver_log import DriverLog
from rlrun.experiments.runs.events import RunEvent, RunFinished, RunStarted, RunStopping, TrialEvent, TrialNote, Watcher
from rlrun.experiments.runs.outcome import NoFaultOfATrial
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.runs.unreported_metrics import UnreportedMetrics
from rlrun.experiments.spec.experiment import Experiment, TrialSpec
from rlrun.experiments.trial.event_file import FILE_PATTERN
from rlrun.experiments.trial.results import CSV_FILE, RESULT_FILE, Row, iterate_results
from rlrun.experiments.trial.resumption import ending_in_words


class Interrupts:
    """Context manager that records the first SIGINT, SIGTERM or SIGHUP, and raises KeyboardInterrupt at the second.

    While an env hangs in this process, the first signal also raises KeyboardInterrupt, since the iteration would never
    end.

    Signals that the caller ignores stay ignored, such as SIGHUP under `nohup`.

    Signals can only be received in the main thread. A run in another thread cannot be interrupted in this way.

    Args:
        heard: Callback for the first signal, called in the signal handler.

    Attributes:
        received: Name of the first signal; "" if there was none yet.
    """

    received: str

    def __init__(self, heard: Callable[[], object] = lambda: None) -> None:
        self.received = ""
        self._heard = heard
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        """Installs the signal handlers."""
        interrupt_requested.clear()
        self.listen()
        return self

    def __exit__(self, *exception: object) -> None:
        """Restores the former signal handlers."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
        interrupt_requested.clear()

    def listen(self) -> None:
        """Installs the signal handlers; also called to reinstall them after a library such as Ray has replaced them."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                handler = signal.signal(number, self._receive)
                self._previous.setdefault(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            raise KeyboardInterrupt
        self.received = signal.Signals(number).name
        interrupt_requested.set()
        self._heard()


RESULT_FILES = (RESULT_FILE, CSV_FILE, FILE_PATTERN)

LARGE_BYTES = 100_000_000
"""Total size of a trial's result files above which the user is advised to make them smaller."""

LOOK_EVERY_ITERATIONS = 1000
"""Iterations between two checks of the size of a trial's result files; in that time, rows grow to about 1.5 MB."""


@dataclass
class ActiveRun:
    """Run in progress: state that its executor (local or Ray Tune) needs, and methods that send events to the watcher.

    Attributes:
        directory: The run's directory.
        experiment: The experiment.
        trials: The trials to run, in order; a searcher adds more.
        resumed: Whether the trials are resumed.
        eager: Whether updates that were compiled may run uncompiled on a machine without a compiler.
        interrupts: Signals with which the user stops the run.
        log: Redirection of stdout and stderr to the run's log.
        watch: Function called with each event of the run.
        owner: This process's ownership of the run's copy in remote storage; None for runs without a copy.
        errors: Exceptions of failed trials, by trial name.
        stopped: Reasons why the scheduler stopped trials early, by trial name.
        why_no_kernels: Reason why the run's machines cannot use the compiled C kernels of updates; "" if they can.
        capacity: Total resources of the Ray cluster, by kind such as "CPU"; {} for the local executor.
        token: Token with which a trial's process checks its access to the run's directory; "" for the local executor.
        disk: Name of the actor that reads and writes the run's directory for processes without access; "" if there is
            no actor.
        watch_error: Exception raised by the watcher, or None; after an exception, trials save and stop as after an
            interrupt.
        fault: Error, such as a full disk, after which all trials save and stop without counting as failed; or None.
        warned_of_size: Whether the user has already been told about large result files.
        can_stop: Whether the watcher has received `RunStarted`, but neither `RunStopping` nor `RunFinished`.
    """

    directory: RunDirectory
    experiment: Experiment
    trials: list[TrialSpec]
    resumed: bool
    eager: bool
    interrupts: Interrupts
    log: DriverLog
    watch: Watcher
    owner: CopyOwner | None = None
    errors: dict[str, Exception] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)
    why_no_kernels: str = ""
    capacity: dict[str, float] = field(default_factory=dict)
    token: str = ""
    disk: str = ""
    watch_error: Exception | None = None
    fault: NoFaultOfATrial | None = None
    warned_of_size: bool = False
    can_stop: bool = False
    _unreported: UnreportedMetrics = field(init=False)
    _is_telling: bool = False
    _is_stop_due: bool = False

    def __post_init__(self) -> None:
        self._unreported = UnreportedMetrics(self.experiment.to_data())

    def confirm_owner(self) -> None:
        """Confirms, before a write to the run's directory, that no other process has taken over the run's copy."""
        if self.owner is not None:
            self.owner.confirm_if_reachable()

    def tell(self, event: RunEvent) -> None:
        """Sends an event to the watcher; a stop signal received during the call is reported afterwards."""
        if self.watch_error is not None:
            return
        if isinstance(event, RunStarted | RunFinished):
            self.can_stop = isinstance(event, RunStarted)
        self._is_telling = True
        try:
            with self.log.printing_to_terminal():
                self.watch(event)
        except Exception as error:  # a watcher's error must not fail trials or lose their progress
            self.watch_error = error
            self.interrupts.received = self.interrupts.received or "a failed watcher"
        finally:
            self._is_telling = False
        if self._is_stop_due:
            self.stopping()

    def stopping(self) -> None:
        """Sends `RunStopping` to the watcher, once per run.

        Called in a signal handler, so possibly between any two instructions.
        """
        self._is_stop_due = self._is_telling
        if self.can_stop and not self._is_telling:
            self.can_stop = False
            self.tell(RunStopping(self.interrupts.received))

    def iterated(self, trial: str, row: Row, *, place: str = "") -> None:
        """Sends a trial's newest result row to the watcher.

        A single note follows once result files have become large, and one for each metric that is named by the spec but
        missing in the results.
        """
        self.tell(TrialEvent(trial, "RUNNING", row, place=place))
        folder = self.directory.path / trial
        for text in self._unreported.found(row, lambda: iterate_results(folder)):
            self.note(trial, text)
        if self.warned_of_size or row["iteration"] % LOOK_EVERY_ITERATIONS:
            return
        size = sum(file.stat().st_size for name in RESULT_FILES for file in folder.glob(name))
        if size > LARGE_BYTES:
            self.warned_of_size = True
            self.note(
                trial,
                f"its result files have reached {size / 1e6:,.0f} MB after {row['iteration']:,} iterations: "
                "raise config.min_env_steps_per_iteration for fewer iterations and smaller files",
            )

    def note(self, trial: str, text: str) -> None:
        """Sends a message about a trial to the watcher."""
        self.tell(TrialNote(trial, text))

    def failed(self, trial: str, error: Exception) -> None:
        """Records the failure of a trial, and sends the event to the watcher."""
        self.errors[trial] = error
        if isinstance(error, NoFaultOfATrial):
            self.stop_for(error)
            self.tell(TrialEvent(trial, "INTERRUPTED", error=str(error)))
            return
        record = self.directory.record(trial)
        # If a trial's process has died, the error is recorded here. A trial that another process runs is left alone.
        files = self.directory.trial_directory(trial)
        if not files.is_claimed():
            with self.stopping_when_full():
                if record.status != "ERROR":
                    ended_in = ending_in_words("the trial's process died", stepped_env(files.path), steps_envs=False)
                    self.directory.mark(trial, "ERROR", "\n".join([str(error), *([ended_in] if ended_in else [])]))
                files.write_record(replace(self.directory.record(trial), exit_code=exit_code_of(error)))
        self.tell(TrialEvent(trial, "ERROR", error=str(error)))

    def stop_for(self, fault: NoFaultOfATrial) -> None:
        """Makes all trials save and stop after an error that affects all of them; the run can be resumed afterwards."""
        self.fault = self.fault or fault
        self.interrupts.received = self.interrupts.received or (
            "a full disk" if isinstance(fault, DiskFull) else "the end of Ray"
        )

    @contextmanager
    def stopping_when_full(self) -> Iterator[None]:
        """Context manager for the driver's file writes: a full disk ends the block early and stops all trials."""
        try:
            yield
        except DiskFull as error:
            self.stop_for(error)

    def restarts(self, trial: str, restart: int, of: int, error: Exception) -> None:
        """Marks a failed trial as INTERRUPTED before its restart, so that the run can be resumed."""
        if self.directory.record(trial).status == "ERROR":
            with self.stopping_when_full():
                self.directory.mark(trial, "INTERRUPTED")
        self.note(trial, f"restarting ({restart} of {of}): {error}")

    def ended(self, trial: str) -> None:
        """Sends the final status of a trial to the watcher."""
        # If a scheduler has stopped a trial, the trial's record may not show it yet.
        record, stopped_by = self.directory.record(trial), self.stopped.get(trial, "")
        status = "TERMINATED" if stopped_by else record.status
        self.tell(TrialEvent(trial, status, stopped_by=stopped_by, stop_reason=stopped_by or record.stop_reason))
