"""``rlrun plot RUN...``: learning curves of runs, in the terminal or as a picture."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlrun.cli.json_document import print_json, wants_json
from rlrun.cli.options import axis_option, complete_runs, json_option, metric_options, runs_dir_option
from rlrun.cli.tables import cell_text, echo
from rlrun.report.step_axis import STEP_NAMES

if TYPE_CHECKING:
    from rlrun.engine.settings.metric import Mode
    from rlrun.report.curves import Curve

MOST_LINES = 8
OTHER_LINES = 8  # lines that a terminal needs for axes, legend and the prompt
HEIGHT, WIDTH = 18, 100


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=complete_runs)
@metric_options
@axis_option
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Image file to write (.svg, .png or .pdf).",
)
@click.option("--terminal", is_flag=True, help="Draw in the terminal (the default without -o).")
@runs_dir_option
@json_option("the curves")
def plot(
    runs: tuple[str, ...],
    metric: str | None,
    mode: Mode | None,
    axis: str | None,
    output: Path | None,
    terminal: bool,
    runs_dir: Path,
) -> None:
    """Draw learning curves of runs.

    Each curve is the mean of a configuration over its seeds; in a file, a band
    shows the range from the worst to the best seed. For a population (pbt), the
    curve shows its best member. Without -o the plot is drawn in the terminal.
    """
    from rlrun.cli.targets import run_named
    from rlrun.engine.messages.errors import UsageError
    from rlrun.report.configurations import groups_of
    from rlrun.report.curves import curve_of
    from rlrun.report.picture import check_picture_name, draw_picture
    from rlrun.report.reading import axis_of, denser_counterpart, missing_returns, read_judged_runs

    if output is not None:
        check_picture_name(output)
    paths = [run_named(run, runs_dir) for run in runs]
    views, shown, mode_shown = read_judged_runs(paths, metric, mode)
    if metric is None and (other := denser_counterpart(views, shown)) is not None:
        echo(
            f"{shown} has only a few values so far; this plot shows {other}, which has more (--metric chooses another "
            "metric)",
            err=True,
        )
        views, shown, mode_shown = read_judged_runs(paths, other, mode)
    metric, mode = shown, mode_shown
    for problem in (problem for view in views for problem in view.problems):
        echo(f"ignored: {problem}", err=True)
    groups = [group for view in views for group in groups_of(view, several_runs=len(views) > 1)]
    column = axis_of(views, axis)
    found = [curve_of(group, metric, column, mode=mode) for group in groups]
    curves = [curve for curve in found if curve is not None]
    if not curves:
        names = ", ".join(view.name for view in views)
        raise UsageError(f"{names}: no values of '{metric}' to draw yet{missing_returns(views, metric)}")
    if output is not None:
        draw_picture(curves, metric, STEP_NAMES.get(column, "seconds"), output, mode=mode)
    if wants_json():
        drawn = [
            {
                "label": curve.label,
                "seeds": len(curve.ys),
                "x": curve.xs.tolist(),
                "mean": curve.mean.tolist(),
                "low": curve.low.tolist(),
                "high": curve.high.tolist(),
            }
            for curve in curves
        ]
        print_json({"metric": metric, "axis": column, "curves": drawn, "file": output and str(output)})
        return
    if output is not None:
        echo(f"Drawn: {output}")
    if output is None or terminal:
        echo(_terminal_plot(curves, metric, STEP_NAMES.get(column, "seconds of training"), mode))


def _terminal_plot(curves: Sequence[Curve], metric: str, x_name: str, mode: Mode) -> str:
    """Renders the best learning curves as text that fits the terminal."""
    from rlrun.engine.messages.errors import UsageError
    from rlrun.report.curves import ranked
    from rlrun.report.terminal_plot import Line, draw

    encoding = sys.stdout.encoding or "ascii"
    try:
        "⠿┤".encode(encoding)
    except UnicodeEncodeError:
        raise UsageError(
            f"a terminal with encoding {encoding} cannot show a plot; write a file with -o curve.svg"
        ) from None
    best = ranked(curves, mode)
    shown = best[:MOST_LINES]
    columns, lines = shutil.get_terminal_size((WIDTH, HEIGHT + OTHER_LINES))
    text = draw(
        [Line(_legend(curve), curve.xs, curve.mean) for curve in shown],
        x_name=x_name,
        y_name=metric,
        width=min(columns, WIDTH),
        height=min(HEIGHT, lines - OTHER_LINES),
        color=sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
    )
    if len(best) > len(shown):
        text += f"\n{len(best) - len(shown)} more with final values of {cell_text(best[len(shown)].final)} or worse"
    return text


def _legend(curve: Curve) -> str:
    seeds = len(curve.ys)
    ends = f", {seeds} seeds" if seeds > 1 else ""
    return f"{curve.label}: {cell_text(curve.final)}{ends}"
