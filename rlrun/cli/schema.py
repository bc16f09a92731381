"""``rlrun schema``: the JSON Schema of spec files, for editors."""

from __future__ import annotations

import click

from rlrun.cli.json_document import print_json


@click.command()
def schema() -> None:
    """Print the JSON Schema of spec files, for editors.

    `rlrun schema > rlrun.schema.json` writes it where a spec's first line may name it:
    `# yaml-language-server: $schema=rlrun.schema.json`, as `rlrun init` writes. In VS Code
    with the extension for YAML that is all.
    """
    from rlrun.experiments.spec.schema import json_schema

    print_json(json_schema())
