"""Plain text tables: aligned columns, cut to a terminal's width, uncut where the output is piped."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

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
        rows: The cells; None is shown as "-", a float with few digits.
        width: Characters in a line, None for as many as the table takes.
        expendable: Headings of the columns that may be left out, the first one first.

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
    """Joins columns of texts to lines, each truncated and padded to its width, aligned left or right."""
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
        columns: Heading -> function from an item to its cell.
        expendable: See `table`.
        drops_empty: Whether a column without any value is left out.

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
    """Formats a number with a noun, with plural s.

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
