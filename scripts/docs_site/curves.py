"""Learning curves of the shipped specs as SVG: a line for each recorded seed, and a line for their mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.report.step_axis import ENV_STEPS, SGD_STEPS, STEP_NAMES
from scripts.results import read_records

WIDTH, HEIGHT = 320, 190
LEFT, RIGHT, TOP, BOTTOM = 50, 312, 26, 164
"""Edges of the axes in the picture, in pixels."""
POINTS = 60
FEW_POINTS = 5
"""Curves with at most this many points get a dot at each, because the line between them is mostly interpolation."""


def curves_of(spec: str) -> list[str]:
    """Pictures of a spec's recorded curves, one for each metric of each experiment.

    Args:
        spec: Path of the spec, relative to the repository.
    """
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in _records().get(spec, []):
        if len(record["curve"]) > 1:
            found.setdefault((record["experiment"], record["metric"]), []).append(record)
    return [curve_picture(spec, metric, records) for (_, metric), records in found.items()]


def _records(kept: dict[str, list[dict[str, Any]]] = {}) -> dict[str, list[dict[str, Any]]]:  # noqa: B006 (read once)
    if not kept:
        for record in read_records():
            kept.setdefault(record["spec"], []).append(record)
    return kept


def curve_picture(spec: str, metric: str, records: Sequence[dict[str, Any]]) -> str:
    """SVG of the curves of one metric: thin lines for seeds, a thick line for their mean, a dashed line for the gate.

    Args:
        spec: Path of the spec.
        metric: The metric.
        records: A record for each seed, as in docs/results/learning.jsonl.
    """
    curves = [np.array(record["curve"], float).T for record in records]
    end = max(steps[-1] for steps, _ in curves)
    gate = float(records[0]["expected"])
    values = np.concatenate([values for _, values in curves])
    low, high = min(float(values.min()), gate), max(float(values.max()), gate)
    span = (high - low) or 1.0

    def places(steps: Any, values: Any) -> Iterator[tuple[float, float]]:
        xs = LEFT + np.asarray(steps) / end * (RIGHT - LEFT)
        ys = BOTTOM - (np.asarray(values) - low) / span * (BOTTOM - TOP)
        return zip(xs, ys, strict=True)

    def line(steps: Any, values: Any, kind: str) -> str:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places(steps, values))
        return f'<polyline class="{kind}" points="{points}"/>'

    def dots(steps: Any, values: Any) -> str:
        """Marks the measured points of a curve with few evaluations; the line between them is interpolated."""
        return "".join(f'<circle class="seed" cx="{x:.1f}" cy="{y:.1f}" r="2"/>' for x, y in places(steps, values))

    positions, mean = mean_curve(curves, POINTS)
    counter = SGD_STEPS if SGD_STEPS in records[0] else ENV_STEPS
    lines = [line(steps, values, "seed") for steps, values in curves]
    lines += [dots(steps, values) for steps, values in curves if len(steps) <= FEW_POINTS]
    lines += [line([0, end], [gate, gate], "gate"), line(positions, mean, "mean")]
    return (
        f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(spec)}: {escape(metric)}">'
        + _axes(spec, metric, f"{_short(end)} {STEP_NAMES[counter]}", (low, high), len(records))
        + "".join(lines)
        + "</svg>"
    )


def mean_curve(curves: Sequence[NDArray[np.float64]], points: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean of curves over the range in which all of them have values: positions and means, [points] each.

    Args:
        curves: Steps and values of each curve, [2, rows].
        points: Number of equally spaced positions.
    """
    places = np.linspace(max(steps[0] for steps, _ in curves), min(steps[-1] for steps, _ in curves), points)
    return places, np.mean([np.interp(places, steps, values) for steps, values in curves], axis=0)


def _axes(spec: str, metric: str, end: str, bounds: tuple[float, float], seeds: int) -> str:
    short = metric.rpartition("/")[2].replace("episode_return_mean", "return")
    low, high = bounds
    return (
        f'<text class="title" x="2" y="12">{escape(spec.removeprefix("configs/"))}</text>'
        f'<path class="axis" d="M{LEFT},{TOP} V{BOTTOM} H{RIGHT}"/>'
        f'<text class="low" x="{LEFT - 5}" y="{TOP + 4}">{_short(high)}</text>'
        f'<text class="low" x="{LEFT - 5}" y="{BOTTOM}">{_short(low)}</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 9}">{escape(short)}, {seeds} seed{"s" * (seeds > 1)}</text>'
        f'<text class="low" x="{RIGHT}" y="{HEIGHT - 9}">{end}</text>'
    )


def _short(number: float) -> str:
    """A number with at most three digits and a unit.

    Examples:
        >>> _short(100_210), _short(1.5e6), _short(-138.13), _short(0.25)
        ('100k', '1.5M', '-138', '0.25')
    """
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"
