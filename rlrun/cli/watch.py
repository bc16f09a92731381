"""Shows a run while it runs: a live view on a terminal, lines elsewhere; always on stderr."""

from __future__ import annotations

import io
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from rlrun.cli.progress import PlainLines, TrialProgress
from rlrun.tune.events import RunEvent, RunFinished, RunStarted, RunStopping, TrialEvent, TrialNote

if TYPE_CHECKING:
    from types import TracebackType


class View(Protocol):
    """What draws the progress of a run."""

    def show(self, trial: TrialProgress) -> None:
        """Shows that a trial has changed."""

    def say(self, text: str) -> None:
        """Shows a line of text that stays."""

    def close(self) -> None:
        """Ends the view."""


class RunWatcher:
    """Watches the events of a run and shows them on stderr.

    The stream is a copy of stderr made at the start, because a run under Ray sends the process's own stderr to a log.
    Use as a context manager: whatever ends the run, the terminal is left in order.
    """

    def __init__(self) -> None:
        self._stream = copy_of_stderr()
        self._view: View | None = None
        self._trials: dict[str, TrialProgress] = {}

    def __enter__(self) -> RunWatcher:
        """Starts to watch."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the view, and the stream if it is a copy."""
        self._close_view()
        if self._stream is not sys.stderr:
            with suppress(BrokenPipeError):  # of lines that nobody has read
                self._stream.close()

    def __call__(self, event: RunEvent) -> None:
        """Shows one event."""
        match event:
            case RunStarted():
                self._trials = {trial.name: TrialProgress(trial.name, trial.stop) for trial in event.trials}
                self._view = self._view_of(event)
            case TrialEvent():
                trial = self._trials[event.trial]
                trial.observe(event, time.monotonic())
                if self._view is not None:
                    self._view.show(trial)
            case TrialNote():
                self._say(f"{event.trial}: {event.text}" if len(self._trials) > 1 else event.text)
            case RunStopping():
                self._say(f"{event.signal}: saving and stopping; once more ends it at once")
            case RunFinished():
                self._close_view()

    def _view_of(self, event: RunStarted) -> View:
        trials = f"{len(event.trials)} trial{'s' if len(event.trials) != 1 else ''}"
        again = " resumed" if event.resumed else ""
        place = " on Ray" if event.uses_ray else ""
        heading = f"{event.experiment}: {trials}{again}{place}, in {shown_path(event.directory)}"
        if self._stream.isatty() and os.environ.get("TERM") != "dumb":
            from rlrun.cli.live import LiveView

            return LiveView(heading, self._trials, self._stream, uses_ray=event.uses_ray)
        lines = PlainLines(self._trials, self._write_line)
        lines.say(heading)
        return lines

    def _say(self, text: str) -> None:
        if self._view is not None:
            self._view.say(text)

    def _write_line(self, line: str) -> None:
        # A log that nobody reads any more (a closed pipe) is no reason to end a training run.
        with suppress(BrokenPipeError):
            print(line, file=self._stream, flush=True)

    def _close_view(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None


def shown_path(path: Path) -> str:
    """Returns a path as the user would type it: relative where it lies below the current directory."""
    current = Path.cwd()
    return str(path.relative_to(current)) if path.is_relative_to(current) else str(path)


def copy_of_stderr() -> TextIO:
    """Returns a stream that goes on leading to the terminal when the process's stderr is sent elsewhere."""
    try:
        descriptor = os.dup(sys.stderr.fileno())
    except (OSError, ValueError, io.UnsupportedOperation):  # a stream in memory has no descriptor to copy
        return sys.stderr
    return open(descriptor, "w", encoding=sys.stderr.encoding, errors="replace")
