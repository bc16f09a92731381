"""Progress as lines for a log: off a terminal nothing can be drawn twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread

from rlrun.cli.progress import RunProgress, TrialProgress, whole_seconds


class PlainLines:
    """Writes a line when a trial starts and when it ends, and one about the run every 30 seconds.

    A lone trial has a line with its first result besides. A thread keeps the 30 seconds: an iteration may take minutes,
    and nothing is reported while Ray starts.

    Args:
        run: The run; already updated when `show` is called.
        write: Writes one line.
        every_s: Seconds between two lines.
        prefix: Put before each line, "" or the name of the experiment where several run one after the other.
    """

    def __init__(self, run: RunProgress, write: Callable[[str], None], every_s: float = 30.0, prefix: str = "") -> None:
        self._run = run
        self._write = write
        self._every_s = every_s
        self._prefix = prefix
        self._began = self._last_time = time.monotonic()
        self._told: dict[str, str] = {}
        self._closed = Event()
        self._thread = Thread(target=self._tell_until_closed, name="progress lines", daemon=True)
        self._thread.start()

    def show(self, trial: TrialProgress) -> None:
        """Writes a line about a trial that has just changed, if one is due."""
        now = time.monotonic()
        is_first = len(self._run.trials) == 1 and trial.result is not None
        stage = "ended" if trial.ended else "trains" if is_first else "started"
        if trial.status not in ("PENDING", "PAUSED") and self._told.get(trial.name) != stage:
            self._told[trial.name] = stage
            self._last_time = now
            self.say(trial.line(now))
        else:
            self.tell_if_due(now)

    def tell_if_due(self, now: float) -> None:
        """Writes a line about the run if the last line was long enough ago.

        Args:
            now: The time, by `time.monotonic`.
        """
        if now - self._last_time >= self._every_s:
            self._last_time = now
            self.say(self._state(now))

    def say(self, text: str) -> None:
        """Writes a line that is due whatever the time."""
        self._write(f"{self._prefix}{text}")

    def close(self) -> None:
        """Writes no more lines that are due by the clock. Can be called twice."""
        self._closed.set()
        self._thread.join()

    def _state(self, now: float) -> str:
        """Returns how far the run is, and before the first result for how long it has been starting."""
        so_far = f", {whole_seconds(now - self._began)} so far"
        if self._run.starts_ray:
            return f"starting Ray{so_far}"
        trials = list(self._run.trials.values())
        if len(trials) != 1 or trials[0].status == "PENDING":
            return self._run.summary(now)
        return trials[0].line(now) + (so_far if trials[0].result is None and not trials[0].ended else "")

    def _tell_until_closed(self) -> None:
        while not self._closed.wait(max(0.0, self._last_time + self._every_s - time.monotonic())):
            self.tell_if_due(time.monotonic())
