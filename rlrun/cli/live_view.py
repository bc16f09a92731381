"""Live view of a run on a terminal, redrawn in place: a table of all trials, or the screen of a single trial."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from rlrun.cli.run_progress import RunProgress
from rlrun.cli.tables import GAP, cell_text, metric_words, plain
from rlrun.cli.trial_progress import (
    OUTCOME_METRICS,
    RETURNS,
    TrialMetrics,
    TrialProgress,
    whole_seconds,
)
from rlrun.cli.trial_table import drawn_run, heading_of
from rlrun.report.step_axis import STEP_NAMES

REFRESHES_PER_S = 2

FIRST = ("entropy", "kl", "explained_variance")
"""Learner metrics that the screen shows right after the losses, and before all other learner metrics."""

LABEL_WIDTH = 12
LONGEST_LINE = 40
"""Maximum width of a curve or progress bar, in characters."""

LEAST_CURVE = 8
LEAST_SHARE = 0.005
"""Smallest share of an iteration's time that is shown."""

_BARS = "▁▂▃▄▅▆▇█"


def drawn_trial(
    trial: TrialProgress, metrics: TrialMetrics, heading: str, now: float, console: Console
) -> RenderableType:
    """Renders the screen of a single trial; on a terminal with few lines, the last lines are omitted.

    Args:
        trial: Progress of the trial.
        metrics: Metrics of the trial.
        heading: Text of the first line.
        now: Current time in seconds, on the caller's clock.
        console: The terminal, whose size limits the screen.
    """
    width, is_utf8 = console.width, console.encoding.startswith("utf")
    curves = OUTCOME_METRICS if trial.plays_games else {metric_words(metric): metric for metric in RETURNS}
    curves = {**curves, **trial.named}
    named = {"iteration": "iteration", "episodes": "episodes", "episode length": "episode_len_mean"}
    counts = [f"{label} {cell_text(metrics.last[name])}" for label, name in named.items() if name in metrics.last]
    lines = [
        *_progress_bar(trial.share, width, is_utf8),
        *_section(STEP_NAMES[trial.metric], [trial.steps_text(with_unit=False), *counts], width),
        *(
            _curve_line(words, metric, trial, metrics, width, is_utf8)
            for words, metric in curves.items()
            if metric in metrics.curves
        ),
        *_section("learner", _learner(metrics), width),
        *_section("speed", [trial.rate_text(), trial.remaining_text(now)], width),
        *_section("time", _phases(metrics), width),
    ]
    texts = [Text(plain(heading), style="bold"), *(Text(plain(line)) for line in lines)]
    for text in texts:
        text.overflow, text.no_wrap = "ellipsis", True
    return Group(*texts[: max(1, console.height - 1)])


def sparkline(values: Sequence[float], width: int) -> str:
    """Draws values as a line of bars; neighbors are averaged if there are more values than characters.

    Examples:
        >>> sparkline([0, 0, 5, 5, 10], 5), sparkline([0, 0, 10, 10], 2)
        ('▁▁▅▅█', '▁█')
    """
    size = min(width, len(values))
    edges = [round(place * len(values) / size) for place in range(size + 1)]
    means = [sum(values[low:high]) / (high - low) for low, high in itertools.pairwise(edges)]
    least, most = min(means), max(means)
    scale = (len(_BARS) - 1) / (most - least) if most > least else 0.0
    return "".join(_BARS[int((mean - least) * scale + 0.5)] for mean in means)


def _progress_bar(share: float, width: int, is_utf8: bool) -> list[str]:
    """Line with the completed fraction; no line if it is unknown."""
    if share <= 0:
        return []
    text = f"{share:.0%}"
    length = max(0, min(LABEL_WIDTH + LONGEST_LINE, width - len(text) - 1))
    full, rest = "━─" if is_utf8 else "=-"
    filled = round(share * length)
    return [f"{full * filled}{rest * (length - filled)} {text}"]


def _curve_line(words: str, metric: str, trial: TrialProgress, metrics: TrialMetrics, width: int, is_utf8: bool) -> str:
    """Line with the last and best value of a return or outcome, and its curve where there is room."""
    text = f"{f'{words} ':<{LABEL_WIDTH}}{cell_text(metrics.last[metric])}"
    best = f"best {cell_text(trial.best)}" if trial.judged_by == metric and trial.best is not None else ""
    room = min(LONGEST_LINE, width - LABEL_WIDTH - 8 - len(GAP) * 2 - len(best))
    if not is_utf8 or room < LEAST_CURVE:
        return GAP.join(filter(None, [text, best]))
    return GAP.join(filter(None, [f"{text:<{LABEL_WIDTH + 8}}", sparkline(metrics.curves[metric], room), best]))


def _section(label: str, cells: Sequence[str], width: int) -> Iterator[str]:
    """Yields lines that begin with a label, each with as many cells as fit."""
    line = ""
    for cell in filter(None, cells):
        if line and len(line) + len(GAP) + len(cell) > width:
            yield line
            line, label = "", ""
        line = f"{line}{GAP}{cell}" if line else f"{label:<{LABEL_WIDTH}}{cell}"
    if line:
        yield line


def _learner(metrics: TrialMetrics) -> list[str]:
    """Cells of the learner's metrics: losses, then `FIRST`, then the others."""
    found = {
        name.replace("policies/", "", 1).replace("learner/", "", 1): value
        for name, value in metrics.last.items()
        if "learner/" in f"/{name}" and not name.startswith("time/")
    }
    return [f"{name} {cell_text(found[name])}" for name in sorted(found, key=_place)]


def _place(name: str) -> int:
    """Place of a learner's metric in the order of the screen."""
    last = name.rpartition("/")[2]
    if last.endswith("loss"):
        return 0
    return 1 + FIRST.index(last) if last in FIRST else 1 + len(FIRST)


def _phases(metrics: TrialMetrics) -> list[str]:
    """Cells of the phases' shares of the newest iteration, longest first."""
    seconds: Mapping[str, float] = {
        name.removeprefix("time/").removesuffix("_s"): value
        for name, value in metrics.last.items()
        if name.startswith("time/") and name.endswith("_s") and name.count("/") == 1
    }
    # Evaluations run after an iteration, so the iteration's time may be shorter than the sum of all phases.
    whole = max(metrics.last.get("time_this_iter_s") or 0.0, sum(seconds.values()))
    shares = {name: value / whole for name, value in seconds.items() if whole and value / whole >= LEAST_SHARE}
    return [f"{name} {share:.0%}" for name, share in sorted(shares.items(), key=lambda pair: -pair[1])]


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
            return Group(drawn, Text(self._run.waiting_text(now) or "starting Ray", style="dim"))
        return drawn
