"""Curves drawn as text in Braille characters of two by four dots, with axes and a legend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

COLORS = (34, 33, 32, 35, 31, 36, 94, 93)
"""ANSI colors of the curves, in order."""

LEAST_WIDTH, LEAST_HEIGHT = 24, 6
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # bits of a character, by row and column
_BRAILLE = 0x2800
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Line:
    """A curve to draw.

    Attributes:
        label: Text of the curve in the legend.
        xs: Positions, ascending, [N].
        ys: Values, [N]; NaN where there is none.
    """

    label: str
    xs: Floats
    ys: Floats


def draw(
    lines: Sequence[Line], *, x_name: str, y_name: str, width: int = 80, height: int = 18, color: bool = False
) -> str:
    """Draws curves as text.

    The end of each curve is marked by the letter of its legend entry, so that curves can be distinguished without
    color.

    Args:
        lines: The curves; earlier curves are drawn on top.
        x_name: Name of the horizontal axis.
        y_name: Name of the vertical axis.
        width: Characters in a line.
        height: Lines of the drawing area.
        color: Whether the text may contain ANSI color codes.
    """
    shown = [line for line in lines if np.isfinite(line.ys).any()]
    if not shown:
        return f"{y_name}: no values to draw yet"
    left, right, bottom, top = _limits(shown)
    ticks = nice_ticks(bottom, top, max(2, height // 4))
    margin = max(len(tick_text(tick)) for tick in ticks)
    columns, rows = max(LEAST_WIDTH, width - margin - 2 - len(shown)), max(LEAST_HEIGHT, height)
    canvas = np.full((rows, columns + len(shown) + 1), " ", dtype=object)
    for number, line in reversed(list(enumerate(shown))):
        dots = _dots(line, (left, right, bottom, top), rows, columns)
        for row, column in zip(*dots.nonzero(), strict=True):
            canvas[row, column] = _painted(chr(_BRAILLE + dots[row, column]), number, color)
    for number, line in enumerate(shown):
        _draw_label(canvas, line, _painted(_letter(number), number, color), (left, right, bottom, top), columns)
    row_of = {min(rows - 1, int((top - tick) / (top - bottom) * rows)): tick_text(tick) for tick in ticks}
    body = [
        f"{row_of.get(row, ''):>{margin}} {'┤' if row in row_of else '│'}{''.join(canvas[row])}".rstrip()
        for row in range(rows)
    ]
    legend = [f"{' ' * margin} {_painted(_letter(n), n, color)}  {line.label}" for n, line in enumerate(shown)]
    return "\n".join([f"{' ' * margin} {y_name}", *body, *_x_axis(left, right, columns, margin, x_name), "", *legend])


def nice_ticks(low: float, high: float, about: int) -> list[float]:
    """Round values for axis ticks from `low` to `high`, spaced by 1, 2 or 5 times a power of ten.

    Args:
        low: Lower end of the axis.
        high: Upper end of the axis.
        about: Approximate number of ticks.

    Examples:
        >>> nice_ticks(0, 43, 4)
        [0.0, 20.0, 40.0]
    """
    rough = (high - low) / max(1, about)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) + 0.0 for number in range(first, last + 1)]


def tick_text(value: float) -> str:
    """Formats a number for an axis.

    Examples:
        >>> tick_text(40_000), tick_text(1.5e6), tick_text(0.25), tick_text(0)
        ('40k', '1.5M', '0.25', '0')
    """
    for size, prefix in _PREFIXES:
        if abs(value) >= size:
            return f"{value / size:.4g}{prefix}"
    return f"{value:.4g}"


def _limits(lines: Sequence[Line]) -> tuple[float, float, float, float]:
    there = [np.isfinite(line.ys) for line in lines]
    xs = np.concatenate([line.xs[has] for line, has in zip(lines, there, strict=True)])
    ys = np.concatenate([line.ys[has] for line, has in zip(lines, there, strict=True)])
    left, right, bottom, top = (float(value) for value in (xs.min(), xs.max(), ys.min(), ys.max()))
    if right <= left:
        left, right = left - 0.5, right + 0.5
    pad = (top - bottom) * 0.03 or abs(top) * 0.1 or 1.0
    return left, right, bottom - pad, top + pad


def _dots(line: Line, limits: tuple[float, float, float, float], rows: int, columns: int) -> NDArray[np.int64]:
    """Rasterizes a curve to Braille dots, [rows, columns]; neighbors are joined by vertical lines."""
    left, right, bottom, top = limits
    there = np.isfinite(line.ys)
    width, height = 2 * columns, 4 * rows
    at = left + (np.arange(width) + 0.5) / width * (right - left)
    ys = np.interp(at, line.xs[there], line.ys[there])
    inside = (at >= line.xs[there][0] - (right - left) / width) & (at <= line.xs[there][-1] + (right - left) / width)
    levels = np.clip(((top - ys) / (top - bottom) * height).astype(int), 0, height - 1)
    dots = np.zeros((rows, columns), np.int64)
    previous = None
    for x in inside.nonzero()[0]:
        level = int(levels[x])
        before = level if previous is None else previous
        first, last = (
            (before + 1, level) if before < level else (level, before - 1) if before > level else (level, level)
        )
        for y in range(first, last + 1):
            dots[y // 4, x // 2] |= _DOTS[y % 4, x % 2]
        previous = level
    return dots


def _draw_label(
    canvas: NDArray[np.object_], line: Line, letter: str, limits: tuple[float, float, float, float], columns: int
) -> None:
    """Writes a curve's letter into the first free cell right of the curve's end."""
    left, right, bottom, top = limits
    there = np.isfinite(line.ys)
    row = int((top - line.ys[there][-1]) / (top - bottom) * len(canvas))
    row = min(len(canvas) - 1, max(0, row))
    end = min(columns - 1, int((line.xs[there][-1] - left) / (right - left) * columns))
    free = (column for column in range(end + 1, canvas.shape[1]) if canvas[row, column] == " ")
    canvas[row, next(free)] = letter


def _x_axis(left: float, right: float, columns: int, margin: int, name: str) -> list[str]:
    ticks = nice_ticks(left, right, max(2, columns // 16))
    places = {min(columns - 1, int((tick - left) / (right - left) * columns)): tick_text(tick) for tick in ticks}
    rule = "".join("┬" if column in places else "─" for column in range(columns))
    labels = [" "] * (columns + 8)
    for place, text in places.items():
        begin = max(0, place - len(text) // 2)
        labels[begin : begin + len(text)] = text
    indent = " " * (margin + 1)
    return [f"{indent}└{rule}", f"{indent} {''.join(labels).rstrip()}", f"{indent}{name:>{columns + 1}}"]


def _letter(number: int) -> str:
    return chr(ord("a") + number % 26)


def _painted(text: str, number: int, color: bool) -> str:
    return f"\033[{COLORS[number % len(COLORS)]}m{text}\033[0m" if color else text
