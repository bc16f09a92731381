"""``rlrun metrics ALGORITHM``: all metrics of an algorithm's results, with units and meanings."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlrun.cli.experiments import algorithm_named
from rlrun.cli.json_document import print_result
from rlrun.cli.options import complete_algorithms, json_option, spec_files_option
from rlrun.cli.tables import stdout_width, table

if TYPE_CHECKING:
    from rlrun.training.policies import Policies


@click.command()
@click.argument("algorithm", required=False, shell_complete=complete_algorithms)
@spec_files_option(required=False)
@json_option("the metrics")
def metrics(algorithm: str | None, files: tuple[Path, ...]) -> None:
    """List the metrics of an algorithm: names, units and meanings.

    ALGORITHM is a name from `rlrun algorithms` or package.module:Class. With -f
    they are the metrics of an experiment in a spec file, such as one in a world
    of many agents.
    """
    from rlrun.spec.metric_checks import reported_metrics

    if bool(algorithm) == bool(files):
        raise click.UsageError("name an algorithm, or a spec file with -f")
    learns, in_world = _learns(algorithm, files)
    trained, measured = reported_metrics(learns, in_world=in_world)
    reported = [*trained, *measured]
    rows = [[metric.name, metric.unit, metric.meaning] for metric in reported]
    listed = table(["metric", "unit", "meaning"], rows, stdout_width())
    print_result({"metrics": [dataclasses.asdict(metric) for metric in reported]}, listed)


def _learns(algorithm: str | None, files: tuple[Path, ...]) -> tuple[Policies, bool]:
    """Returns the policies that learn, and whether they learn in a world of many agents."""
    from rlrun.spec.load import load_experiments
    from rlrun.training.policies import Policies
    from rlrun.worlds.world_config import WorldConfig

    if algorithm is not None:
        found = algorithm_named(algorithm)
        return Policies.alone(found(found.Config())), False
    experiments = load_experiments(files, ())
    if len(experiments) > 1:
        raise click.UsageError(f"metrics are those of one experiment, and the files hold {len(experiments)}")
    trial = experiments[0].first_trial()
    return trial.learns, isinstance(trial.env, WorldConfig)
