"""The live view of a run on a terminal: a line per running trial with a bar toward its stop."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rlrun.cli.progress import TrialProgress, summary, whole_seconds
from rlrun.cli.tables import cell_text

REFRESHES_PER_S = 2
LEAST_WIDTH_OF_BAR, LEAST_WIDTH_OF_STEPS, LEAST_WIDTH_OF_RATE, LEAST_WIDTH_OF_LEFT = 50, 104, 84, 66
LINES_BESIDE_TRIALS = 4


class LiveView:
    """Draws the trials of a run in place, twice a second, and takes itself off the screen at the end.

    Args:
        heading: What runs and where, in one line.
        trials: The trials by name; read whenever the view is drawn.
        stream: The terminal.
        uses_ray: Whether Ray is started first, and the process's own stdout and stderr lead to a log. Otherwise what
            the process prints meanwhile is shown above the view.
    """

    def __init__(self, heading: str, trials: Mapping[str, TrialProgress], stream: TextIO, *, uses_ray: bool) -> None:
        self._heading = heading
        self._uses_ray = uses_ray
        self._trials = trials
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
        """Takes note that a trial has changed; the very first result is drawn at once."""
        if trial.result is not None and not self._has_result:
            self._has_result = True
            self._live.refresh()

    def say(self, text: str) -> None:
        """Writes a line above the view."""
        self._console.print(text)

    def close(self) -> None:
        """Takes the view off the screen. Can be called twice."""
        self._live.stop()

    def _draw(self) -> RenderableType:
        now = time.monotonic()
        heading = Text(f"{self._heading}  {whole_seconds(now - self._start)}", overflow="ellipsis", no_wrap=True)
        running = [trial for trial in self._trials.values() if trial.status == "RUNNING"]
        parts: list[RenderableType] = [heading]
        if running:
            parts.append(self._rows(running[: max(1, self._console.height - LINES_BESIDE_TRIALS)], now))
        if self._uses_ray and all(trial.status == "PENDING" for trial in self._trials.values()):
            parts.append(Text("starting Ray", style="dim"))
        elif len(self._trials) > 1:
            parts.append(Text(summary(self._trials.values()), overflow="ellipsis", no_wrap=True, style="dim"))
        return Group(*parts)

    def _rows(self, trials: list[TrialProgress], now: float) -> Table:
        width = self._console.width
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(12, width // 3))
        for _ in range(6):
            table.add_column(no_wrap=True, justify="right")
        for trial in trials:
            if trial.result is None:
                table.add_row(trial.name, Text("starting", style="dim"))
                continue
            has_bar = width >= LEAST_WIDTH_OF_BAR and trial.share > 0
            steps = cell_text(trial.result.get("env_steps"))
            table.add_row(
                trial.name,
                ProgressBar(total=1.0, completed=trial.share, width=max(8, width // 6)) if has_bar else Text(),
                f"{trial.share:.0%}" if trial.share > 0 else "",
                f"{steps} steps" if width >= LEAST_WIDTH_OF_STEPS or trial.share == 0 else "",
                trial.return_text(),
                trial.rate_text() if width >= LEAST_WIDTH_OF_RATE else "",
                trial.left_text(now) if width >= LEAST_WIDTH_OF_LEFT else "",
            )
        return table
