"""``rlrun config ALGORITHM``: every setting of an algorithm with its default and meaning."""

from __future__ import annotations

import click

from rlrun.cli.completers import complete_algorithms
from rlrun.cli.experiments import algorithm_named
from rlrun.cli.json_document import print_result
from rlrun.cli.options import json_option


@click.command()
@click.argument("algorithm", shell_complete=complete_algorithms)
@json_option("the settings and their defaults")
def config(algorithm: str) -> None:
    """Print every setting of an algorithm as commented YAML.

    ALGORITHM is a name from `rlrun algorithms` or package.module:Class.
    """
    import yaml

    from rlrun.engine.settings.commented_yaml import commented_yaml

    text = commented_yaml(algorithm_named(algorithm).Config).rstrip("\n")
    print_result({"algorithm": algorithm, "settings": yaml.safe_load(text)}, text)
