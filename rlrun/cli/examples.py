"""``rlrun examples [TEXT]``: the specs that ship with rlrun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.json_document import print_result, wants_json
from rlrun.cli.options import json_option
from rlrun.cli.tables import stdout_width, table
from rlrun.cli.terminal import echo

if TYPE_CHECKING:
    from pathlib import Path

REACH = "must reach"

NO_TARGETS = ("seeds", "passes", "last_evaluations", "regression_floor")
"""Keys of `expect` that say how targets are judged."""


@click.command()
@click.argument("text", required=False)
@json_option("the specs")
def examples(text: str | None) -> None:
    """List the specs that come with rlrun.

    Each with its algorithm, its env, and the targets that it must reach.
    TEXT keeps those with it in a column. `rlrun train cartpole/ppo` trains one.
    """
    from rlrun.experiments.spec.load import shipped_configs

    found = [row for path in shipped_configs() for row in _rows(path)]
    wanted = (text or "").lower()
    found = [row for row in found if any(wanted in str(value).lower() for value in row.values())]
    if not found and not wants_json():
        echo(f"No spec with '{text}'; `rlrun examples` lists all.", err=True)
        return
    headings = list(found[0]) if found else []
    print_result({"specs": found}, table(headings, [list(row.values()) for row in found], stdout_width()))


def _rows(path: Path) -> list[dict[str, Any]]:
    """Table rows of a file's experiments, without validation, which would require the envs' packages."""
    from rlrun.experiments.spec.titles import algorithm_title, env_title
    from rlrun.experiments.spec.yaml_source import read_document

    rows = []
    for entry in read_document(path).data.values():
        judged = [entry, *entry.get("stages", {}).values()][-1]
        expected = {name: value for name, value in judged.get("expect", {}).items() if name not in NO_TARGETS}
        row = {
            "spec": f"{path.parent.name}/{path.stem}",
            "algorithm": algorithm_title(entry),
            "env": env_title(entry["env"]),
            REACH: ", ".join(f"{name} {value:,}" for name, value in expected.items()),
        }
        rows.append(row)
    return rows
