"""``rlrun plot RUN... -o FILE``: learning curves of runs as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.options import runs_dir_option

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rlrun.trial.results import Row

GRID_POINTS = 200
COLORS = ("#2563a8", "#c2571a", "#2f7d4f", "#8a3f8f", "#6b6b6b", "#a8323e")


@dataclass(frozen=True)
class Curve:
    """One configuration's results over its seeds.

    Attributes:
        label: What the legend calls it.
        xs: The grid, [G].
        ys: Per seed the metric on the grid, [seeds, G]; NaN where a seed has no value.
    """

    label: str
    xs: NDArray[np.float64]
    ys: NDArray[np.float64]


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--metric", default="episode_return_mean", show_default=True, help="What is drawn.")
@click.option("--x", "axis", default="env_steps", show_default=True, help="What it is drawn over.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="FILE.svg, .png or .pdf."
)
@runs_dir_option
def plot(runs: tuple[str, ...], metric: str, axis: str, output: Path, runs_dir: Path) -> None:
    """Draw learning curves of runs as a picture.

    Each curve is the mean over seeds, with a band between the worst and the best of them.
    """
    from rlrun.cli.targets import run_named
    from rlrun.errors import UsageError

    if output.suffix not in (".svg", ".png", ".pdf"):
        raise UsageError(f"{output}: a picture is written as .svg, .png or .pdf")
    curves = [
        curve for name in runs for curve in _curves(run_named(name, runs_dir), metric, axis, several=len(runs) > 1)
    ]
    _draw(curves, metric, axis, output)
    click.echo(f"Drawn: {output}")


def _curves(run: Path, metric: str, axis: str, *, several: bool) -> list[Curve]:
    """Returns a curve for each configuration of a run."""
    from rlrun.errors import UsageError, did_you_mean
    from rlrun.tune.run_directory import RunDirectory

    groups: dict[str, list[list[Row]]] = {}
    for trial in RunDirectory.open(run).results():
        varied = ", ".join(f"{name}={value}" for name, value in trial.params.items() if name != "seed")
        label = ", ".join(part for part in (run.name if several or not varied else "", varied) if part)
        groups.setdefault(label, []).append(trial.results())
    reported = list(
        dict.fromkeys(name for trials in groups.values() for rows in trials for row in rows for name in row)
    )
    for name in (metric, axis):
        if reported and name not in reported:
            raise UsageError(f"{run} does not report '{name}'{did_you_mean(name, reported)}")
    found = [_curve(label, trials, metric, axis) for label, trials in groups.items()]
    curves = [curve for curve in found if curve is not None]
    if not curves:
        raise UsageError(f"{run} has no '{metric}' to draw yet")
    return curves


def _curve(label: str, trials: Sequence[Sequence[Row]], metric: str, axis: str) -> Curve | None:
    """Puts the seeds of one configuration on a common grid."""
    import numpy as np

    points = [
        np.array([(row[axis], row[metric]) for row in rows if row.get(metric) is not None], np.float64)
        for rows in trials
    ]
    points = [seed for seed in points if len(seed)]
    if not points:
        return None
    xs = np.linspace(min(seed[0, 0] for seed in points), max(seed[-1, 0] for seed in points), GRID_POINTS)
    ys = [np.interp(xs, seed[:, 0], seed[:, 1], left=np.nan, right=np.nan) for seed in points]
    return Curve(label, xs, np.stack(ys))


def _draw(curves: Sequence[Curve], metric: str, axis: str, output: Path) -> None:
    import warnings

    import numpy as np

    from rlrun.errors import EnvironmentUnusable

    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
        from matplotlib.ticker import EngFormatter
    except ModuleNotFoundError:
        raise EnvironmentUnusable("drawing needs matplotlib: pip install 'rlrun[plot]'") from None

    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes: Any = figure.subplots()
    for curve, color in zip(curves, COLORS * (len(curves) // len(COLORS) + 1), strict=False):
        seeds = len(curve.ys)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(Mean of empty|All-NaN)", RuntimeWarning)  # before any seed has a value
            mean, low, high = (f(curve.ys, axis=0) for f in (np.nanmean, np.nanmin, np.nanmax))
        label = f"{curve.label} ({seeds} seed{'s' * (seeds > 1)})"
        axes.plot(curve.xs, mean, color=color, linewidth=1.8, label=label)
        if seeds > 1:
            axes.fill_between(curve.xs, low, high, color=color, alpha=0.18, linewidth=0)
    axes.set_xlabel(axis.replace("_", " "))
    axes.set_ylabel(metric.replace("_", " "))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, loc="best")
    output.parent.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.hashsalt": "rlrun"}):  # the same curves give the same file
        figure.savefig(output, dpi=150, metadata={"Date": None} if output.suffix == ".svg" else None)
