"""Progress of a run as lines of text, for logs and pipes."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread

from rlrun.cli.run_progress import RunProgress
from rlrun.cli.trial_progress import TrialProgress, whole_seconds


class PlainLines:
    """Progress display as plain lines: at the start and end of each trial, and every 30 seconds for the run.

    A single trial also gets a line at its first result. A thread writes the periodic lines, since an iteration may take
    minutes, and no events arrive while Ray starts.

    Args:
        run: The run, which is updated before `show` is called.
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
        """Writes a line about a trial that has changed, if it has started, ended or got its first result."""
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
            now: The time, by `time.monotonic`.
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
            return f"starting Ray{so_far}"
        trials = list(self._run.trials.values())
        if len(trials) != 1 or trials[0].status == "PENDING":
            return self._run.summary(now)
        return trials[0].line(now) + (so_far if trials[0].result is None and not trials[0].ended else "")

    def _write_until_closed(self) -> None:
        while not self._closed.wait(max(0.0, self._last_time + self._every_s - time.monotonic())):
            self.write_if_due(time.monotonic())
