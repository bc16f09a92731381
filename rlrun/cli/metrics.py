"""``rlrun metrics ALGORITHM``: everything that results report, with its unit and what it means."""

from __future__ import annotations

import dataclasses

import click

from rlrun.cli.json_document import print_json
from rlrun.cli.options import complete_algorithms, json_option
from rlrun.cli.tables import stdout_width, table
from rlrun.cli.terminal import echo


@click.command()
@click.argument("algorithm", shell_complete=complete_algorithms)
@json_option("the metrics")
def metrics(algorithm: str, as_json: bool) -> None:
    """List what an algorithm reports: names, units and meanings.

    ALGORITHM is a name from `rlrun algorithms` or package.module:Class.
    """
    from rlrun.registry import algorithm_class
    from rlrun.spec.experiment import EVALUATION_METRICS
    from rlrun.spec.metric_checks import ANY_ENV
    from rlrun.training.training import Training

    found = algorithm_class(algorithm)
    reported = [*Training(ANY_ENV, found(found.Config())).metrics(), *EVALUATION_METRICS]
    if as_json:
        print_json([dataclasses.asdict(metric) for metric in reported])
        return
    rows = [[metric.name, metric.unit, metric.meaning] for metric in reported]
    echo(table(["metric", "unit", "what it says"], rows, stdout_width()))
