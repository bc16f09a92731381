"""``rlrun report RUN... -o FILE``: everything there is to see of runs, on one page that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlrun.cli.options import runs_dir_option
from rlrun.cli.terminal import echo

if TYPE_CHECKING:
    from rlrun.spec.tuning import Mode


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The page to write.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="What curves are shown of, several times for several; trials are judged by the first. "
    "Default: what the run's scheduler or best checkpoint goes by.",
)
@click.option(
    "--mode",
    type=click.Choice(["max", "min"]),
    help="Whether more or less of the metric is better; default: as the run's scheduler says, else max.",
)
@runs_dir_option
def report(runs: tuple[str, ...], output: Path, metrics: tuple[str, ...], mode: Mode | None, runs_dir: Path) -> None:
    """Write a page about runs that needs nothing else.

    It holds learning curves, tables of configurations and trials, a sweep's
    parallel axes and parameter importance, a population's lineage, what was stopped,
    the spec and versions. It can be opened, sent, kept and printed.
    """
    from rlrun.cli.targets import run_named
    from rlrun.errors import UsageError
    from rlrun.report.page import write_report

    if output.suffix not in (".html", ".htm"):
        raise UsageError(f"{output}: a report is written as .html")
    problems = write_report([run_named(run, runs_dir) for run in runs], output, metrics=metrics, mode=mode)
    for problem in problems:
        echo(f"left out: {problem}", err=True)
    echo(f"Written: {output} ({output.stat().st_size / 1e6:.1f} MB)")
