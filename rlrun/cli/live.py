"""Live view of a run on a terminal, redrawn in place: a table of trials, or the screen of a single trial."""

from __future__ import annotations

import time
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from rlrun.cli.run_progress import RunProgress
from rlrun.cli.terminal import plain
from rlrun.cli.trial_progress import TrialProgress, whole_seconds
from rlrun.cli.trial_screen import drawn_trial
from rlrun.cli.trial_table import drawn_run, heading_of

REFRESHES_PER_S = 2


class LiveView:
    """Live terminal view of a run, redrawn twice a second and cleared at the end.

    Args:
        title: Name of the run, in a few words.
        directory: Directory of the run.
        run: Progress of the run, read whenever the view is drawn.
        stream: The terminal.
        uses_ray: Whether Ray is started first, and the process's stdout and stderr are redirected to a log. Otherwise
            other output of the process appears above the view.
    """

    def __init__(self, title: str, directory: str, run: RunProgress, stream: TextIO, *, uses_ray: bool) -> None:
        self._title = title
        self._directory = directory
        self._run = run
        self._start = time.monotonic()
        self._has_result = False
        self._console = Console(file=stream, highlight=False, markup=False)
        self._live = Live(
            get_renderable=self._draw,
            console=self._console,
            refresh_per_second=REFRESHES_PER_S,
            transient=True,
            redirect_stdout=not uses_ray,
            redirect_stderr=not uses_ray,
        )
        self._live.start(refresh=True)

    def show(self, trial: TrialProgress) -> None:
        """Redraws the view at once for a trial's first result; other changes wait for the next refresh."""
        if trial.result is not None and not self._has_result:
            self._has_result = True
            self._live.refresh()

    def say(self, text: str) -> None:
        """Writes a line above the view."""
        self._console.print(plain(text))

    def close(self) -> None:
        """Clears the view. Idempotent."""
        self._live.stop()

    def _draw(self) -> RenderableType:
        now = time.monotonic()
        title = f"{self._title}: {whole_seconds(now - self._start)}"
        if self._run.has_single_trial and self._has_result:
            heading = heading_of(self._run, title, self._directory, now)
            (trial,) = self._run.trials.values()
            return drawn_trial(trial, self._run.metrics, heading, now, self._console)
        drawn = drawn_run(self._run, title, self._directory, now, self._console)
        if self._run.starts_ray:
            return Group(drawn, Text("starting Ray", style="dim"))
        return drawn
