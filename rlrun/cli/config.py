"""``rlrun config ALGORITHM``: the settings of an algorithm with their defaults and meanings."""

from __future__ import annotations

import click

from rlrun.cli.completers import complete_algorithms
from rlrun.cli.experiments import algorithm_named
from rlrun.cli.json_document import print_result
from rlrun.cli.options import json_option


@click.command()
@click.argument("algorithm", shell_complete=complete_algorithms)
@click.option("--all", "show_all", is_flag=True, help="Print all settings, not only the ten that matter most.")
@json_option("all settings and their defaults")
def config(algorithm: str, show_all: bool) -> None:
    """Print the settings of an algorithm as commented YAML.

    ALGORITHM is a name from `rlrun algorithms` or package.module:Class.
    """
    import yaml

    from rlrun.engine.settings.commented_yaml import commented_yaml, main_settings

    model = algorithm_named(algorithm).Config
    everything, names = commented_yaml(model), main_settings(model)
    text = everything
    if not show_all and len(names) < len(model.model_fields):
        all_of_them = f"`rlrun config {algorithm} --all` prints all {len(model.model_fields)}"
        head = f"# The {len(names)} settings that matter most; {all_of_them}."
        text = f"{head}\n\n{commented_yaml(model, names)}"
    print_result({"algorithm": algorithm, "settings": yaml.safe_load(everything)}, text.rstrip("\n"))
