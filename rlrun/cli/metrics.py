"""``rlrun metrics ALGORITHM``: all metrics of an algorithm's results, with units and meanings."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from rlrun.cli.completers import complete_algorithms
from rlrun.cli.experiments import described_trainings
from rlrun.cli.json_document import print_result
from rlrun.cli.options import json_option, spec_files_option
from rlrun.cli.tables import stdout_width, table


@click.command()
@click.argument("algorithm", required=False, shell_complete=complete_algorithms)
@spec_files_option
@json_option("the metrics")
def metrics(algorithm: str | None, files: tuple[Path, ...]) -> None:
    """List the metrics of an algorithm: names, units and meanings.

    ALGORITHM is a name from `rlrun algorithms` or package.module:Class. With -f
    they are the metrics of an experiment in a spec file, such as one in a world
    of many agents.
    """
    trainings = described_trainings(algorithm, files)
    if len(trainings) > 1:
        raise click.UsageError(f"metrics are those of one experiment, and the files hold {len(trainings)}")
    from rlrun.experiments.spec.metric_checks import reported_metrics

    ((_, training),) = trainings
    in_world = training.env.has_many_agents
    trained, measured = reported_metrics(training.policies, in_world=in_world, hooks=training.hooks)
    reported = [*trained, *measured]
    better = {"max": "higher", "min": "lower", None: ""}
    rows = [[metric.name, metric.unit, better[metric.mode], metric.meaning] for metric in reported]
    listed = table(["metric", "unit", "better", "meaning"], rows, stdout_width())
    print_result({"metrics": [dataclasses.asdict(metric) for metric in reported]}, listed)
