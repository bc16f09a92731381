"""Plain text tables: aligned columns, truncated to the terminal's width unless output is piped."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rlrun.report.step_axis import STEP_NAMES, counted_metric

if TYPE_CHECKING:
    from rlrun.report.summary import GroupSummary


MOST_ROWS = 20
"""Default maximum number of rows of a table."""

# Characters that must not reach the terminal: control characters (C0 and C1) except newlines and tabs, characters that
# reorder text, and bytes of file names that are not UTF-8. rlrun's own colors are kept.
_CONTROLS = re.compile(
    r"(?!\x1b\[(?:0|[39][0-7])m)[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)

T = TypeVar("T")

GAP = "  "
LEAST_WIDTH = 6  # a column is never cut below this, however narrow the terminal


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[Any]],
    width: int | None = None,
    expendable: Sequence[str] = (),
) -> str:
    """Formats rows as a text table.

    Numbers are aligned to the right. If the table is wider than `width`, expendable columns are left out, and then the
    widest columns are cut with an ellipsis.

    Args:
        headings: One heading per column.
        rows: The cells; None is shown as "-", and floats with few digits.
        width: Maximum line width in characters; None for no limit.
        expendable: Headings of the columns that may be left out, in this order.

    Examples:
        >>> print(table(["run", "steps"], [["cartpole", 2048], ["pong", None]]))
        run       steps
        cartpole  2,048
        pong          -
    """
    cells = [[cell_text(cell) for cell in row] for row in rows]
    columns = list(zip(headings, *cells, strict=True))
    numeric = [
        bool(rows) and all(cell is None or _is_number(cell) for cell in column) for column in zip(*rows, strict=True)
    ] or [False] * len(headings)
    widths = [max(map(len, column)) for column in columns]
    for heading in (heading for heading in expendable if heading in headings):
        if width is not None and sum(widths) + len(GAP) * (len(widths) - 1) > width:
            place = [column[0] for column in columns].index(heading)
            del columns[place], numeric[place], widths[place]
    if width is not None:
        widths = _narrowed(widths, width - len(GAP) * (len(widths) - 1))
    return aligned(columns, widths, numeric)


def aligned(columns: Sequence[Sequence[str]], widths: Sequence[int], on_the_right: Sequence[bool]) -> str:
    """Joins columns of strings into lines; pads or truncates each column to its width, and aligns it left or right."""
    lines = []
    for line in zip(*columns, strict=True):
        fields = [
            _cut(text, size).rjust(size) if right else _cut(text, size).ljust(size)
            for text, size, right in zip(line, widths, on_the_right, strict=True)
        ]
        lines.append(GAP.join(fields).rstrip())
    return "\n".join(lines)


def listed(
    items: Sequence[T],
    columns: Mapping[str, Callable[[T], Any]],
    expendable: Sequence[str] = (),
    *,
    drops_empty: bool = False,
) -> str:
    """Formats items as a text table fitted to the terminal, one row per item.

    Args:
        items: The items.
        columns: Functions from an item to its cell, by heading.
        expendable: Headings of the columns that may be left out to fit the width, in this order.
        drops_empty: Whether to omit columns without any value.

    Examples:
        >>> print(listed([-1, 2], {"number": int, "size": abs, "unit": lambda number: None}, drops_empty=True))
        number  size
            -1     1
             2     2
    """
    cells = {heading: [cell(item) for item in items] for heading, cell in columns.items()}
    if drops_empty:
        cells = {heading: column for heading, column in cells.items() if any(cell is not None for cell in column)}
    return table(list(cells), list(zip(*cells.values(), strict=True)), stdout_width(), expendable)


def metric_words(metric: str) -> str:
    """Short display name of a metric in a table or sentence.

    Examples:
        >>> [metric_words(f"{where}episode_return_mean") for where in ("", "evaluation/", "policies/left/")]
        ['return', 'evaluation', 'policies/left/episode_return_mean']
    """
    return {"episode_return_mean": "return", "evaluation/episode_return_mean": "evaluation"}.get(metric, metric)


def cell_text(cell: Any) -> str:
    """Formats a value as a table cell.

    Examples:
        >>> cell_text(None), cell_text(1234567), cell_text(487.123), cell_text(0.0003), cell_text(True)
        ('-', '1,234,567', '487.1', '0.0003', 'yes')
    """
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:,.1f}" if abs(cell) >= 100 else f"{cell:.4g}"
    return " ".join(str(cell).split())  # a cell is one line


def counted(number: int, noun: str) -> str:
    """Formats a number with a noun, in the plural if necessary.

    Examples:
        >>> counted(1, "episode"), counted(1_000, "trial")
        ('1 episode', '1,000 trials')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Formats a duration in the two largest units.

    Examples:
        >>> duration(7.26), duration(41.8), duration(75), duration(3_700), duration(200_000)
        ('7.3 s', '42 s', '1 min 15 s', '1 h 01 min', '2 d 07 h')
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600:02d} h"


def stdout_width() -> int | None:
    """Width of the terminal, or None (no truncation) if stdout is piped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _narrowed(widths: list[int], room: int) -> list[int]:
    """Shrinks the widest columns until the table fits, or all columns have the minimum width."""
    widths = list(widths)
    while sum(widths) > room and max(widths) > LEAST_WIDTH:
        widths[widths.index(max(widths))] -= 1
    return widths


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def plain(text: str) -> str:
    r"""Removes control sequences and bidirectional control characters from a string.

    Examples:
        >>> plain("a\x1b]0;title\x07b\x9bc\u202ed\n")
        'a]0;titlebcd\n'
    """
    return _CONTROLS.sub("", text)


def echo(text: str = "", *, err: bool = False) -> None:
    """Prints a message on stdout or stderr, without control sequences other than colors."""
    click.echo(plain(text), err=err)


def configurations_table(
    summaries: list[GroupSummary], metric: str, *, whole: bool = False, more: str = "--all"
) -> str:
    """Formats a table of configurations aggregated over seeds; "" if each configuration has a single trial.

    Args:
        summaries: The configurations, the best first.
        metric: Metric by which configurations are compared.
        whole: Whether to list all configurations instead of only the best.
        more: Command or option that lists the omitted configurations.
    """
    if all(summary.seeds == 1 for summary in summaries):
        return ""
    shown = summaries if whole else summaries[:MOST_ROWS]
    counted = counted_metric(asdict(summary) for summary in summaries)
    steps = STEP_NAMES[counted]
    columns: dict[str, Callable[[GroupSummary], Any]] = {
        "configuration": lambda one: one.label,
        "seeds": lambda one: one.seeds,
        "status": lambda one: one.status,
        steps: lambda one: (count := getattr(one, counted)) and round(count),
        "mean": lambda one: one.mean and one.mean.value,
        "95% interval": lambda one: f"{cell_text(one.mean.low)} to {cell_text(one.mean.high)}" if one.mean else "-",
        "IQM": lambda one: one.iqm and one.iqm.value,
        "best seed": lambda one: one.best,
        counterpart_words(metric): lambda one: one.counterpart,
    }
    rows = listed(shown, columns, ["status", steps], drops_empty=True)
    return f"final {metric} across seeds\n{rows}{left_out(len(summaries) - len(shown), more)}"


def counterpart_words(metric: str) -> str:
    """Column heading for a return's counterpart: the training return for an evaluation return, or vice versa.

    The heading is "in training" if the given metric is measured in evaluations, else "evaluation".
    """
    return "in training" if metric.startswith("evaluation/") else "evaluation"


def left_out(rows: int, more: str = "--all") -> str:
    """Footer with the number of omitted rows and the command or option that lists them; "" if none were omitted."""
    return f"\n{rows:,} more; list them with {more}" if rows else ""
