"""Progress display of a running run on stderr: a live view on a terminal, lines of text for logs and pipes."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Literal, Protocol, TextIO

from rlrun.cli.json_document import print_event
from rlrun.cli.run_progress import RunProgress
from rlrun.cli.tables import counted, plain
from rlrun.cli.trial_progress import TrialProgress, whole_seconds
from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.runs.events import (
    RunEvent,
    RunFinished,
    RunFound,
    RunMeasured,
    RunMeasuring,
    RunNote,
    RunResources,
    RunStarted,
    RunStopping,
    RunWaiting,
    TrialAdded,
    TrialEvent,
    TrialNote,
    TrialRewound,
    Watcher,
)
from rlrun.experiments.runs.outcome import resume_command, shown_path

if TYPE_CHECKING:
    from types import TracebackType


Progress = Literal["lines", "json"]
"""Forms of progress output other than the default, which is a live view on a terminal and lines elsewhere."""


class View(Protocol):
    """Interface for displays of a run's progress."""

    def show(self, trial: TrialProgress) -> None:
        """Updates the display after a trial has changed."""

    def say(self, text: str) -> None:
        """Prints a message without disturbing the display."""

    def close(self) -> None:
        """Closes the display."""


def watching(
    progress: Progress | None, *, quiet: bool, names_experiment: bool = False
) -> AbstractContextManager[Watcher]:
    """Creates the run watcher that the options ``--progress`` and ``--quiet`` select, as a context manager.

    Args:
        progress: Value of ``--progress``.
        quiet: Whether to display nothing.
        names_experiment: Whether each plain line begins with the experiment's name.

    Raises:
        UsageError: Both options are given.
    """
    if quiet and progress is not None:
        raise UsageError(f"--quiet and --progress {progress} cannot be combined; leave one out")
    if quiet:
        return nullcontext(lambda event: None)
    if progress == "json":
        return nullcontext(print_event_line)
    return RunWatcher(names_experiment=names_experiment, is_live=progress is None)


class RunWatcher:
    """Watcher of a run: callable that receives each event of the run, and prints the progress on stderr.

    The display uses a copy of stderr, because a run under Ray redirects the process's own stderr to a log. As a context
    manager, the watcher restores the terminal when the run ends for any reason.

    Args:
        names_experiment: Whether each plain line begins with the experiment's name, for a command that runs several
            experiments in sequence.
        is_live: Whether a live view, redrawn in place, may be used on a terminal.
    """

    def __init__(self, *, names_experiment: bool = False, is_live: bool = True) -> None:
        self._is_live = is_live
        self._stream = copy_of_stderr()
        self._names_experiment = names_experiment
        self._view: View | None = None
        self._run = RunProgress({})

    def __enter__(self) -> RunWatcher:
        """Enters the context; returns this watcher."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the view, and the copy of stderr if there is one."""
        self._close_view()
        if self._stream is not sys.stderr:
            with suppress(BrokenPipeError):
                self._stream.close()

    def __call__(self, event: RunEvent) -> None:
        """Updates the display with one event of the run."""
        match event:
            case RunFound():
                self._write_line(event.text)
            case RunMeasuring():
                self._write_line(f"{event.experiment}: measuring {' and '.join(event.settings)} (a minute or two)")
            case RunMeasured():
                self._write_line(_measured_text(event))
            case TrialRewound():
                kept = f"later results are kept in {shown_path(event.kept)}"
                self._write_line(f"{event.trial}: going back to {event.steps}; {kept}")
            case RunStarted():
                trials = {trial.name: TrialProgress.of(trial) for trial in event.trials}
                self._run = RunProgress(trials, event.expected, uses_ray=event.uses_ray)
                self._view = self._view_of(event)
            case TrialAdded():
                self._run.trials[event.trial.name] = TrialProgress.of(event.trial)
            case TrialEvent():
                trial = self._run.observe(event, time.monotonic())
                if self._view is not None:
                    self._view.show(trial)
            case RunWaiting():
                is_new = self._run.note_waiting(event, time.monotonic())
                if self._view is None:
                    self._write_line(self._run.waiting_text(time.monotonic()))
                elif is_new:
                    self._view.say(self._run.waiting_text(time.monotonic()))
            case RunResources():
                self._run.resources = event
            case TrialNote():
                self._say(f"{event.trial}: {event.text}" if len(self._run.trials) > 1 else event.text)
            case RunNote():
                self._say(event.text)
            case RunStopping():
                self._say(f"{event.signal}: {self._run.stopping_text()}. Send the signal again to stop immediately")
            case RunFinished():
                self._close_view()
                # If at least one trial has not failed, the command's outcome contains this line.
                if all(trial.status == "ERROR" for trial in event.trials) and any(
                    trial.last_result for trial in event.trials
                ):
                    again = resume_command(event.directory, retry_failed=True)
                    self._write_line(f"to resume the failed training, fix the cause, then run: {again}")

    def _view_of(self, event: RunStarted) -> View:
        manner = f"{' resumed' if event.resumed else ''}{' on Ray' if event.uses_ray else ''}"
        directory = shown_path(event.directory)
        if self._is_live and self._stream.isatty() and os.environ.get("TERM") != "dumb":
            from rlrun.cli.live_view import LiveView

            return LiveView(
                f"{event.directory.name}{manner}", directory, self._run, self._stream, uses_ray=event.uses_ray
            )
        lines = PlainLines(
            self._run, self._write_line, prefix=f"{event.directory.name}: " if self._names_experiment else ""
        )
        trials = counted(max(event.expected, len(event.trials)), "trial")
        resumed, on_ray = "resuming " * event.resumed, " on Ray" * event.uses_ray
        self._write_line(f"{event.directory.name}: {resumed}{trials}{on_ray}, in {directory}")
        return lines

    def _say(self, text: str) -> None:
        if self._view is not None:
            self._view.say(text)

    def _write_line(self, line: str) -> None:
        # A closed pipe must not end a training run.
        with suppress(BrokenPipeError):
            # The line is written in a single call, since another thread also writes lines.
            print(f"{plain(line)}\n", end="", file=self._stream, flush=True)

    def _close_view(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None


def _measured_text(event: RunMeasured) -> str:
    numbers = ", ".join(f"{name} {number}" for name, number in event.numbers.items())
    timed = f"{event.timed} of {event.possible}" if event.timed < event.possible else str(event.timed)
    return (
        f"{event.experiment}: {numbers} ({event.env_steps_per_s:,.0f} env steps/s; {timed} settings timed); "
        "results now depend on this machine"
    )


def copy_of_stderr() -> TextIO:
    """Opens a second stream to the current target of stderr, which a later redirection of stderr does not affect."""
    try:
        descriptor = os.dup(sys.stderr.fileno())
    except (OSError, ValueError, io.UnsupportedOperation):  # an in-memory stream has no descriptor to copy
        return sys.stderr
    return open(descriptor, "w", encoding=sys.stderr.encoding, errors="replace")


def print_event_line(event: RunEvent) -> None:
    """Prints an event of a run as a line of JSON; can be passed to `rlrun.run` as `watch`."""
    print_event({**event_data(event), "time": time.time()})


def event_data(event: RunEvent) -> Mapping[str, Any]:
    """Serializes an event of a run to plain data; the kind of event is under the key `event`."""
    match event:
        case RunFound():
            trials = [{"name": trial.name, "status": trial.status} for trial in event.trials]
            return {
                "event": "run_found",
                "experiment": event.experiment,
                "directory": event.directory,
                "text": event.text,
                "is_over": event.is_over,
                "trials": trials,
            }
        case RunMeasuring():
            return {"event": "measuring", **asdict(event)}
        case RunMeasured():
            return {"event": "measured", **asdict(event)}
        case TrialRewound():
            return {"event": "trial_rewound", **asdict(event)}
        case RunStarted():
            return {
                "event": "run_started",
                "experiment": event.experiment,
                "directory": event.directory,
                "executor": event.executor,
                "resumed": event.resumed,
                "expected": event.expected,
                "trials": [{"name": one.name, "seed": one.seed, "params": one.params} for one in event.trials],
            }
        case TrialAdded():
            one = event.trial
            return {"event": "trial_added", "trial": one.name, "seed": one.seed, "params": one.params}
        case TrialEvent():
            return {"event": "trial", **asdict(event)}
        case TrialNote():
            return {"event": "note", **asdict(event)}
        case RunNote():
            return {"event": "note", "trial": None, "text": event.text}
        case RunWaiting():
            return {"event": "waiting", **asdict(event)}
        case RunResources():
            return {"event": "resources", **asdict(event)}
        case RunStopping():
            return {"event": "stopping", **asdict(event)}
        case RunFinished():
            trials = [{"name": trial.name, "status": trial.status} for trial in event.trials]
            return {"event": "run_finished", "directory": event.directory, "seconds": event.seconds, "trials": trials}


class PlainLines:
    """Progress display as plain lines: at the start and end of each trial, and every 30 seconds for the run.

    A single trial also gets a line at its first result. A thread writes the periodic lines, since an iteration may take
    minutes, and no events arrive while Ray starts.

    Args:
        run: Progress of the run, which the caller updates before `show`.
        write: Function that writes one line.
        every_s: Seconds between two lines about the run.
        prefix: Prefix of each line: "", or the name of the experiment if there are several.
    """

    def __init__(self, run: RunProgress, write: Callable[[str], None], every_s: float = 30.0, prefix: str = "") -> None:
        self._run = run
        self._write = write
        self._every_s = every_s
        self._prefix = prefix
        self._began = self._last_time = time.monotonic()
        self._shown_stages: dict[str, str] = {}
        self._closed = Event()
        self._thread = Thread(target=self._write_until_closed, name="progress lines", daemon=True)
        self._thread.start()

    def show(self, trial: TrialProgress) -> None:
        """Writes a line about a changed trial if it has started, ended or got its first result."""
        now = time.monotonic()
        is_first = len(self._run.trials) == 1 and trial.result is not None
        stage = "ended" if trial.ended else "trains" if is_first else "started"
        if trial.status not in ("PENDING", "PAUSED") and self._shown_stages.get(trial.name) != stage:
            self._shown_stages[trial.name] = stage
            self._last_time = now
            self.say(trial.line(now))
        else:
            self.write_if_due(now)

    def write_if_due(self, now: float) -> None:
        """Writes a line about the run if the last line is older than `every_s`.

        Args:
            now: Current time in seconds, by `time.monotonic`.
        """
        if now - self._last_time >= self._every_s:
            self._last_time = now
            self.say(self._state(now))

    def say(self, text: str) -> None:
        """Writes a message immediately."""
        self._write(f"{self._prefix}{text}")

    def close(self) -> None:
        """Stops the thread that writes lines about the run. Idempotent."""
        self._closed.set()
        self._thread.join()

    def _state(self, now: float) -> str:
        """Line on the progress of the run; before the first result, the elapsed time."""
        so_far = f", {whole_seconds(now - self._began)} so far"
        if self._run.starts_ray:
            return self._run.waiting_text(now) or f"starting Ray{so_far}"
        trials = list(self._run.trials.values())
        if len(trials) != 1 or trials[0].status == "PENDING":
            return self._run.summary(now)
        return trials[0].line(now) + (so_far if trials[0].result is None and not trials[0].ended else "")

    def _write_until_closed(self) -> None:
        while not self._closed.wait(max(0.0, self._last_time + self._every_s - time.monotonic())):
            self.write_if_due(time.monotonic())
