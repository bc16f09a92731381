"""Progress as lines for a log: off a terminal nothing can be drawn twice."""

from __future__ import annotations

import time
from collections.abc import Callable

from rlrun.cli.progress import RunProgress, TrialProgress


class PlainLines:
    """Writes a line when a trial starts and when it ends, and one about the run every 30 seconds.

    A lone trial has a line with its first result besides.

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
        self._last_time = time.monotonic()
        self._told: dict[str, str] = {}

    def show(self, trial: TrialProgress) -> None:
        """Writes a line about a trial that has just changed, if one is due."""
        now = time.monotonic()
        is_alone = len(self._run.trials) == 1
        stage = "ended" if trial.ended else "trains" if is_alone and trial.result is not None else "started"
        if trial.status not in ("PENDING", "PAUSED") and self._told.get(trial.name) != stage:
            self._told[trial.name] = stage
            self.say(trial.line(now))
        elif now - self._last_time >= self._every_s:
            self.say(trial.line(now) if is_alone else self._run.summary(now))
        else:
            return
        self._last_time = now

    def say(self, text: str) -> None:
        """Writes a line that is due whatever the time."""
        self._write(f"{self._prefix}{text}")

    def close(self) -> None:
        """Does nothing: lines stay where they are."""
