"""Learning curves drawn to image files by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlrun.engine.messages.errors import EnvironmentUnusable, UsageError
from rlrun.engine.settings.metric import Mode
from rlrun.report.curves import Curve, ranked

COLORS = ("#2563a8", "#c2571a", "#2f7d4f", "#8a3f8f", "#a8323e", "#0f7f8c", "#8c6d1f", "#4b4b8f")
GREY = "#b4b4b4"
LONGEST_LABEL = 100
LONGEST_INSIDE, MOST_INSIDE = 40, 6
"""Maximum label length and number of labels for a legend inside the axes; otherwise it is below them."""
SUFFIXES = (".svg", ".png", ".pdf")


def check_picture_name(output: Path) -> None:
    """Raises an error for an image file name with an unsupported suffix.

    Raises:
        UsageError: If the suffix is not one of `SUFFIXES`.
    """
    if output.suffix not in SUFFIXES:
        raise UsageError(f"{output}: the name of an image must end with .svg, .png or .pdf")


def draw_picture(curves: Sequence[Curve], metric: str, axis: str, output: Path, *, mode: Mode = "max") -> None:
    """Draws learning curves with a band from the worst to the best seed; equal curves give identical files.

    A line is dashed after some of its seeds have ended. If there are more curves than colors, the best are colored
    and the others gray.

    Args:
        curves: The curves.
        metric: Name of the vertical axis.
        axis: Name of the horizontal axis.
        output: The file, with one of `SUFFIXES`.
        mode: Whether higher or lower final values are better.

    Raises:
        EnvironmentUnusable: If matplotlib is missing.
        UsageError: If the file has an unsupported suffix.
    """
    check_picture_name(output)
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
        from matplotlib.ticker import EngFormatter
    except ModuleNotFoundError:
        raise EnvironmentUnusable("image files need matplotlib: pip install 'rlrun[plot]'") from None

    colored = list(curves) if len(curves) <= len(COLORS) else ranked(curves, mode)[: len(COLORS)]
    below = len(colored) > MOST_INSIDE or max(len(curve.label) for curve in colored) > LONGEST_INSIDE
    figure = Figure(figsize=(7.2, 4.2 + (0.21 * (len(colored) + 1) if below else 0)), layout="constrained")
    axes: Any = figure.subplots()
    for place, curve in enumerate(curve for curve in curves if curve not in colored):
        others = f"{len(curves) - len(colored)} others"
        axes.plot(curve.xs, curve.mean, color=GREY, linewidth=0.7, label=None if place else others)
    for curve, color in zip(colored, COLORS, strict=False):
        _draw_curve(axes, curve, color)
    axes.set_xlabel(axis.replace("_", " "))
    axes.set_ylabel(metric.replace("_", " "))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    if below:
        figure.legend(frameon=False, loc="outside lower left", fontsize="small")
    else:
        axes.legend(frameon=False, loc="best")
    output.parent.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.hashsalt": "rlrun"}):
        figure.savefig(output, dpi=150, metadata={"Date": None} if output.suffix == ".svg" else None)


def _draw_curve(axes: Any, curve: Curve, color: str) -> None:
    seeds = len(curve.ys)
    whole = curve.xs <= curve.whole_until
    name = curve.label if len(curve.label) <= LONGEST_LABEL else f"{curve.label[: LONGEST_LABEL - 1]}…"
    label = f"{name} ({seeds} seed{'s' * (seeds > 1)})"
    axes.plot(curve.xs[whole], curve.mean[whole], color=color, linewidth=1.8, label=label)
    if not whole.all():
        rest = slice(max(0, int(whole.sum()) - 1), None)
        axes.plot(curve.xs[rest], curve.mean[rest], color=color, linewidth=1.4, linestyle=(0, (3, 2)))
    if seeds > 1:
        axes.fill_between(curve.xs, curve.low, curve.high, color=color, alpha=0.18, linewidth=0)
