"""A run while it runs: what both executors are given, and what they report to."""

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
"""Size of a trial's result files from which on a run says how they stay smaller."""

LOOK_EVERY_ITERATIONS = 1000
"""How often a trial's result files are looked at: so many rows take about 3 MB."""


@dataclass
class ActiveRun:
    """The part of a run that one call runs.

    Attributes:
        directory: The run's directory.
        experiment: What is run.
        trials: The trials to run, in order; a searcher adds more.
        resumed: Whether they go on with what they have.
        from_checkpoint: The checkpoint whose weights new trials start from, or None.
        eager: Whether updates that were compiled may go on uncompiled.
        interrupts: Whether the user wants it to stop.
        log: Where output goes.
        watch: Who watches.
        errors: What the trials that failed raised, by name.
        stopped: Why a scheduler has ended trials, by name.
        capacity: What Ray has in all, by kind, as "CPU"; {} in this process.
        token: By which a trial's process elsewhere can tell whether it sees the run's directory; "" in this process.
        disk: Name of the actor that reads and writes the directory for those that do not; "" if there is none.
        watch_error: What the watcher raised, if it did; the trials then save and stop as after an interrupt.
        fault: What stops all trials and is no fault of theirs, such as a full disk; they then save and stop likewise.
        told_of_size: Whether it has been said that result files are large.
        can_stop: Whether the watcher has heard that the run has begun, and not yet that it stops or has ended.
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
        """Tells the watcher; of a signal that comes meanwhile it hears after that."""
        if self.watch_error is not None:
            return
        if isinstance(event, RunStarted | RunFinished):
            self.can_stop = isinstance(event, RunStarted)
        self._is_telling = True
        try:
            with self.log.speaking():
                self.watch(event)
        except Exception as error:  # a trial must neither be blamed for it nor lose what it has learned
            self.watch_error = error
            self.interrupts.received = self.interrupts.received or "a failed watcher"
        finally:
            self._is_telling = False
        if self._is_stop_due:
            self.stopping()

    def stopping(self) -> None:
        """Tells the watcher once that trials save and stop; called as soon as a signal is heard, whatever runs then."""
        self._is_stop_due = self._is_telling
        if self.can_stop and not self._is_telling:
            self.can_stop = False
            self.tell(RunStopping(self.interrupts.received))

    def iterated(self, trial: str, row: Row, *, place: str = "") -> None:
        """Tells the watcher a trial's newest row, and once that result files have become large."""
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
        """Tells the watcher something about a trial in words."""
        self.tell(TrialNote(trial, text))

    def failed(self, trial: str, error: Exception) -> None:
        """Notes that a trial failed, and tells the watcher."""
        self.errors[trial] = error
        if isinstance(error, NoFaultOfATrial):
            self.stop_for(error)
            self.tell(TrialEvent(trial, "INTERRUPTED", error=str(error)))
            return
        record = self.directory.record(trial)
        # A trial that died could not say so itself; one that another process holds is not ours to speak of.
        files = self.directory.trial_directory(trial)
        if record.status != "ERROR" and not files.is_claimed():
            ended_in = ending_in_words("the process ended", stepped_env(files.path), steps_envs=False)
            with self.stopping_when_full():
                self.directory.mark(trial, "ERROR", "\n".join([str(error), *([ended_in] if ended_in else [])]))
        self.tell(TrialEvent(trial, "ERROR", error=str(error)))

    def stop_for(self, fault: NoFaultOfATrial) -> None:
        """Lets all trials save and stop: others would fail for the same reason, and all go on in a later call."""
        self.fault = self.fault or fault
        self.interrupts.received = self.interrupts.received or (
            "a full disk" if isinstance(fault, DiskFull) else "the end of Ray"
        )

    @contextmanager
    def stopping_when_full(self) -> Iterator[None]:
        """Guards what the driver itself writes: on a full disk the rest of the block is left undone and trials stop."""
        try:
            yield
        except DiskFull as error:
            self.stop_for(error)

    def restarts(self, trial: str, restart: int, of: int, error: Exception) -> None:
        """Tells the watcher that a trial has failed and starts again, also if the run ends before it does."""
        if self.directory.record(trial).status == "ERROR":
            with self.stopping_when_full():
                self.directory.mark(trial, "INTERRUPTED")
        self.note(trial, f"starts again (restart {restart} of {of}): {error}")

    def ended(self, trial: str) -> None:
        """Tells the watcher how a trial ended."""
        # A trial that a scheduler has ended may still be about to write that down.
        status = "TERMINATED" if trial in self.stopped else self.directory.record(trial).status
        self.tell(TrialEvent(trial, status, stopped_by=self.stopped.get(trial, "")))
