"""``rlrun config ALGORITHM``: every setting of an algorithm with its default and meaning."""

from __future__ import annotations

import click

from rlrun.cli.completers import complete_algorithms
from rlrun.cli.experiments import algorithm_named
from rlrun.cli.terminal import echo


@click.command()
@click.argument("algorithm", shell_complete=complete_algorithms)
def config(algorithm: str) -> None:
    """Print every setting of an algorithm as commented YAML.

    ALGORITHM is a name from `rlrun algorithms` or package.module:Class.
    """
    from rlrun.engine.settings.commented_yaml import commented_yaml

    echo(commented_yaml(algorithm_named(algorithm).Config).rstrip("\n"))
