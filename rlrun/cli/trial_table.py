"""Table of a run's trials, with columns selected by the terminal's width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from rlrun.cli.run_progress import RunProgress
from rlrun.cli.tables import GAP, aligned, cell_text, plain
from rlrun.cli.trial_progress import OUTCOME_METRICS, TrialProgress, display_order, whole_seconds
from rlrun.report.step_axis import STEP_NAMES, counted_metric

BAR_WIDTH = 12
LONGEST_SETTING = 24
OTHER_LINES = 5
"""Number of lines of the view besides trials: heading, column names, counts, best value, and cursor."""

STYLES = {"RUNNING": "green", "ERROR": "red", "KILLED": "red", "DAMAGED": "red", "INTERRUPTED": "yellow"}
"""Colors of trial statuses; statuses that are not listed have none."""


@dataclass(frozen=True)
class Column:
    """Column of the table of trials: heading, cells, and layout.

    Attributes:
        heading: Name of the column.
        cells: Cell text of each trial.
        rank: Order of omission in a narrow terminal, highest first; rank 0 is always shown.
        on_the_right: Whether cells are right-aligned, as for numbers.
    """

    heading: str
    cells: list[str]
    rank: int
    on_the_right: bool = True

    @property
    def width(self) -> int:
        """Width of the column in characters."""
        return max(map(len, (self.heading, *self.cells)))


def columns_of(run: RunProgress, trials: Sequence[TrialProgress], now: float, bar: str = "") -> list[Column]:
    """Creates all non-empty columns of the table.

    Args:
        run: The run.
        trials: The trials to show, one per line.
        now: Current time in seconds, on the caller's clock.
        bar: Character for drawing bars, "" for no bars.
    """
    everyone = list(run.trials.values())
    columns = [
        *_name_columns(trials, has_single_trial=len(everyone) == 1),
        *_setting_columns(everyone, trials),
        *_progress_columns(trials, now, bar),
    ]
    return [each for each in columns if each.rank == 0 or any(cell.strip() not in ("", "-") for cell in each.cells)]


def _name_columns(trials: Sequence[TrialProgress], *, has_single_trial: bool) -> list[Column]:
    """Columns of the trials' names and statuses.

    Parameters and the seed have their own columns, so with several trials only the number of each name is shown.
    """
    names = [trial.name if has_single_trial else trial.name.partition("-")[0] for trial in trials]
    return [Column("trial", names, 0, False), Column("status", [trial.status for trial in trials], 0, False)]


def _setting_columns(everyone: Sequence[TrialProgress], trials: Sequence[TrialProgress]) -> list[Column]:
    """Columns of the settings that differ, and of the seed if there are several."""
    names = dict.fromkeys(name for trial in everyone for name in trial.params)
    columns = [
        Column(name, [_setting(trial, name) for trial in trials], 12 + place if place < 3 else 30 + place)
        for place, name in enumerate(names)
    ]
    if len({trial.seed for trial in everyone}) > 1:
        columns.append(Column("seed", [cell_text(trial.seed) for trial in trials], 20))
    return columns


def _progress_columns(trials: Sequence[TrialProgress], now: float, bar: str) -> list[Column]:
    """Columns of the trials' progress, speed and location."""
    results = [trial.result or {} for trial in trials]
    metric = counted_metric(results)
    lefts = [trial.seconds_left(now) for trial in trials]
    return [
        Column("iter", [cell_text(result.get("iteration")) for result in results], 60),
        Column(STEP_NAMES[metric], [cell_text(result.get(metric)) for result in results], 10),
        Column("of", [_limit_text(trial, metric) for trial in trials], 80),
        Column("done", [f"{trial.share:.0%}" if trial.share > 0 else "" for trial in trials], 25),
        Column("", [f"{bar * round(trial.share * BAR_WIDTH):<{BAR_WIDTH}}" for trial in trials], 100, False),
        *_score_columns(trials),
        Column("steps/s", [trial.rate_text().removesuffix(" steps/s") for trial in trials], 28),
        Column("left", ["" if left is None else whole_seconds(left) for left in lefts], 70),
        Column("where", [trial.place for trial in trials], 90, False),
    ]


def _score_columns(trials: Sequence[TrialProgress]) -> list[Column]:
    """Columns of the outcomes of games if all trials play games, else of the newest returns; and of named metrics."""
    play = all(trial.plays_games for trial in trials)
    named = {words: name for trial in trials for words, name in trial.named.items()}
    metrics = {**(OUTCOME_METRICS if play else {}), **named}
    returns = [] if play else [Column("return", [trial.return_text() for trial in trials], 0)]
    return returns + [
        Column(words, [cell_text(trial.latest(name)) for trial in trials], place)
        for place, (words, name) in enumerate(metrics.items())
    ]


def fitting_columns(columns: Sequence[Column], width: int) -> list[Column]:
    """Drops columns, starting with the highest rank, until the table fits the width."""
    kept = list(columns)
    while sum(column.width for column in kept) + len(GAP) * (len(kept) - 1) > width:
        least = max(kept, key=lambda column: column.rank)
        if least.rank == 0:
            break
        kept.remove(least)
    return kept


def text_table(columns: Sequence[Column]) -> str:
    """Formats columns as plain text lines of unlimited width."""
    texts = [(column.heading, *column.cells) for column in columns]
    return aligned(texts, [column.width for column in columns], [column.on_the_right for column in columns])


def drawn_table(columns: Sequence[Column], statuses: Sequence[str]) -> Table:
    """Renders the table of trials, given its columns, in color for a terminal.

    Args:
        columns: The columns.
        statuses: The trials' statuses, which color their lines.
    """
    table = Table.grid(padding=(0, len(GAP), 0, 0))
    for column in columns:
        table.add_column(no_wrap=True, overflow="ellipsis", justify="right" if column.on_the_right else "left")
    table.add_row(*(Text(column.heading) for column in columns), style="dim")
    for place, status in enumerate(statuses):
        cells = [
            Text(plain(column.cells[place]), style=STYLES.get(status, "") if column.heading in ("status", "") else "")
            for column in columns
        ]
        table.add_row(*cells, style="" if status == "RUNNING" else "dim")
    return table


def drawn_run(run: RunProgress, title: str, directory: str, now: float, console: Console) -> RenderableType:
    """Renders the view of a run: a heading, as many trials as the terminal has lines for, counts, and the best value.

    Args:
        run: The run.
        title: Name of the run, in a few words.
        directory: The run's directory.
        now: Current time in seconds, on the caller's clock.
        console: The terminal, whose size limits the view.
    """
    parts: list[RenderableType] = [_line(heading_of(run, title, directory, now), "bold")]
    trials = display_order(run.trials.values())
    shown = trials[: max(1, console.height - OTHER_LINES)]
    if shown:
        bar = "━" if console.encoding.startswith("utf") else "="
        columns = fitting_columns(columns_of(run, shown, now, bar), console.width)
        parts.append(drawn_table(columns, [trial.status for trial in shown]))
    leader = run.leader()
    beneath = [run.counts_text() if len(run.trials) > 1 or run.expected > 1 else "", run.resources_text()]
    parts += [_line("; ".join(text for text in beneath if text), "dim")] * any(beneath)
    if leader is not None:
        parts.append(_line(str(leader)))
    return Group(*parts)


def heading_of(run: RunProgress, title: str, directory: str, now: float) -> str:
    """First line of a run's live view: title, remaining time and directory; arguments as in `drawn_run`."""
    return ", ".join(filter(None, [title, run.remaining_text(now), f"in {directory}"]))


def _line(text: str, style: str = "") -> Text:
    return Text(plain(text), style=style, overflow="ellipsis", no_wrap=True)


def _limit_text(trial: TrialProgress, metric: str) -> str:
    limit = trial.stop.get(metric)
    return f"{int(limit):,}" if limit and trial.result else ""


def _setting(trial: TrialProgress, name: str) -> str:
    text = cell_text(trial.params.get(name))
    return text if len(text) <= LONGEST_SETTING else f"{text[: LONGEST_SETTING - 1]}…"
