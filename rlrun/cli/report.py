"""``rlrun report RUN... -o FILE``: a report of runs as a single HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import complete_runs, json_option, mode_option, runs_dir_option
from rlrun.cli.tables import echo

if TYPE_CHECKING:
    from rlrun.engine.settings.metric import Mode


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=complete_runs)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="HTML file to write.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Metric whose curves are shown; may be given several times. The first one ranks the trials. Default: the "
    "metric of the run's scheduler or best checkpoint.",
)
@mode_option
@runs_dir_option
@json_option("the report's path and notes")
def report(runs: tuple[str, ...], output: Path, metrics: tuple[str, ...], mode: Mode | None, runs_dir: Path) -> None:
    """Write a report of runs as a single HTML file.

    The report names the best configuration, its lead and the parameters that
    matter, followed by learning curves, all other metrics, tables of
    configurations and trials, performance profiles over envs, a population's
    lineage, the progress of a search, videos, times, machine and spec. The page
    needs no other files and no network.
    """
    from rlrun.cli.targets import run_named
    from rlrun.engine.messages.errors import UsageError
    from rlrun.report.page import write_report

    if output.suffix not in (".html", ".htm"):
        raise UsageError(f"{output}: the name of a report must end with .html")
    problems, differing = write_report([run_named(run, runs_dir) for run in runs], output, metrics=metrics, mode=mode)
    for problem in problems:
        echo(f"ignored: {problem}", err=True)
    size = output.stat().st_size
    data = {"file": str(output), "bytes": size, "left_out": problems, "differing": differing}
    print_result(data, "\n".join([*differing, f"Wrote {output} ({size / 1e6:.1f} MB)"]))
