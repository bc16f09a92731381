"""A running run: the inputs of both executors, and the receiver of their reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rlrun.envs.step_marks import stepped_env
from rlrun.errors import DiskFull
from rlrun.runs.driver_log import DriverLog
from rlrun.runs.events import RunEvent, RunFinished, RunStarted, RunStopping, TrialEvent, TrialNote, Watcher
from rlrun.runs.interrupts import Interrupts
from rlrun.runs.outcome import NoFaultOfATrial
from rlrun.runs.run_directory import RunDirectory
from rlrun.spec.experiment import Experiment, TrialSpec
from rlrun.trial.event_file import FILE_PATTERN
from rlrun.trial.results import CSV_FILE, RESULT_FILE, Row
from rlrun.trial.resumption import ending_in_words

RESULT_FILES = (RESULT_FILE, CSV_FILE, FILE_PATTERN)

LARGE_BYTES = 100_000_000
"""Size of a trial's result files from which on a note explains how to make them smaller."""

LOOK_EVERY_ITERATIONS = 1000
"""Iterations between checks of a trial's result files, in which rows grow to about 1.5 MB."""


@dataclass
class ActiveRun:
    """The part of a run that one call executes.

    Attributes:
        directory: The run's directory.
        experiment: The experiment.
        trials: The trials to run, in order; a searcher adds more.
        resumed: Whether they are resumed.
        from_checkpoint: The checkpoint whose weights new trials start with, or None.
        eager: Whether compiled updates may continue uncompiled.
        interrupts: Signals by which the user stops the run.
        log: Redirection of output.
        watch: Receiver of the run's events.
        errors: Exceptions of failed trials, by name.
        stopped: Reasons of the scheduler for trials that it has ended, by name.
        capacity: Ray's resources in all, by kind such as "CPU"; {} in this process.
        token: Token by which a trial's process on another machine finds whether it sees the run's directory; "" in this
            process.
        disk: Name of the actor that reads and writes the directory for those that do not see it; "" if there is none.
        watch_error: An exception of the watcher, if any; the trials then save and stop as after an interrupt.
        fault: The cause, such as a full disk, that stops all trials without a failure of theirs; they save and stop.
        told_of_size: Whether the note on large result files was sent.
        can_stop: Whether the watcher has received the run's start, and not yet its stopping or end.
    """

    directory: RunDirectory
    experiment: Experiment
    trials: list[TrialSpec]
    resumed: bool
    from_checkpoint: Path | None
    eager: bool
    interrupts: Interrupts
    log: DriverLog
    watch: Watcher
    errors: dict[str, Exception] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)
    capacity: dict[str, float] = field(default_factory=dict)
    token: str = ""
    disk: str = ""
    watch_error: Exception | None = None
    fault: NoFaultOfATrial | None = None
    told_of_size: bool = False
    can_stop: bool = False
    _is_telling: bool = False
    _is_stop_due: bool = False

    def tell(self, event: RunEvent) -> None:
        """Sends an event to the watcher; a signal that arrives meanwhile is sent after it."""
        if self.watch_error is not None:
            return
        if isinstance(event, RunStarted | RunFinished):
            self.can_stop = isinstance(event, RunStarted)
        self._is_telling = True
        try:
            with self.log.speaking():
                self.watch(event)
        except Exception as error:  # trials neither fail for it nor lose progress
            self.watch_error = error
            self.interrupts.received = self.interrupts.received or "a failed watcher"
        finally:
            self._is_telling = False
        if self._is_stop_due:
            self.stopping()

    def stopping(self) -> None:
        """Sends `RunStopping` once; called in the signal handler, in the middle of any other code."""
        self._is_stop_due = self._is_telling
        if self.can_stop and not self._is_telling:
            self.can_stop = False
            self.tell(RunStopping(self.interrupts.received))

    def iterated(self, trial: str, row: Row, *, place: str = "") -> None:
        """Sends a trial's newest row, and once a note if its result files have become large."""
        self.tell(TrialEvent(trial, "RUNNING", row, place=place))
        if self.told_of_size or row["iteration"] % LOOK_EVERY_ITERATIONS:
            return
        folder = self.directory.path / trial
        size = sum(file.stat().st_size for name in RESULT_FILES for file in folder.glob(name))
        if size > LARGE_BYTES:
            self.told_of_size = True
            self.note(
                trial,
                f"its result files take {size / 1e6:,.0f} MB after {row['iteration']:,} iterations, and grow further: "
                "config.min_env_steps_per_iteration makes iterations longer and the files smaller",
            )

    def note(self, trial: str, text: str) -> None:
        """Sends a note on a trial."""
        self.tell(TrialNote(trial, text))

    def failed(self, trial: str, error: Exception) -> None:
        """Records that a trial failed, and sends the event."""
        self.errors[trial] = error
        if isinstance(error, NoFaultOfATrial):
            self.stop_for(error)
            self.tell(TrialEvent(trial, "INTERRUPTED", error=str(error)))
            return
        record = self.directory.record(trial)
        # A trial whose process died has not recorded it itself. One that another process runs is not touched.
        files = self.directory.trial_directory(trial)
        if record.status != "ERROR" and not files.is_claimed():
            ended_in = ending_in_words("the process ended", stepped_env(files.path), steps_envs=False)
            with self.stopping_when_full():
                self.directory.mark(trial, "ERROR", "\n".join([str(error), *([ended_in] if ended_in else [])]))
        self.tell(TrialEvent(trial, "ERROR", error=str(error)))

    def stop_for(self, fault: NoFaultOfATrial) -> None:
        """Makes all trials save and stop, since all would fail for the same reason; a later call can resume them."""
        self.fault = self.fault or fault
        self.interrupts.received = self.interrupts.received or (
            "a full disk" if isinstance(fault, DiskFull) else "the end of Ray"
        )

    @contextmanager
    def stopping_when_full(self) -> Iterator[None]:
        """On a full disk, skips the rest of the block and makes the trials stop; for writes of the driver itself."""
        try:
            yield
        except DiskFull as error:
            self.stop_for(error)

    def restarts(self, trial: str, restart: int, of: int, error: Exception) -> None:
        """Records and sends that a failed trial is restarted, so that a run that ends before can still resume it."""
        if self.directory.record(trial).status == "ERROR":
            with self.stopping_when_full():
                self.directory.mark(trial, "INTERRUPTED")
        self.note(trial, f"starts again (restart {restart} of {of}): {error}")

    def ended(self, trial: str) -> None:
        """Sends a trial's final status."""
        # A trial that a scheduler has ended may not have recorded it yet.
        status = "TERMINATED" if trial in self.stopped else self.directory.record(trial).status
        self.tell(TrialEvent(trial, status, stopped_by=self.stopped.get(trial, "")))
