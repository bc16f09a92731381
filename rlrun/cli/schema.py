"""``rlrun schema``: the JSON Schema of spec files, for editors."""

from __future__ import annotations

import click

from rlrun.cli.json_document import print_json


@click.command()
def schema() -> None:
    """Print the JSON Schema of spec files, for editors.

    In VS Code, for instance: `rlrun schema > rlrun.schema.json`, then name that file under "yaml.schemas".
    """
    from rlrun.spec.schema import json_schema

    print_json(json_schema())
