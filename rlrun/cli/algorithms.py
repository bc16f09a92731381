"""``rlrun algorithms``: the algorithms that a spec can name."""

from __future__ import annotations

from typing import Any

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import json_option
from rlrun.cli.tables import stdout_width, table

INSTALLED = "installed plugins"
"""Kind of the algorithms that other packages provide."""


@click.command()
@json_option("the algorithms")
def algorithms() -> None:
    """List the algorithms by kind, built-in ones and plugins."""
    from rlrun.engine.settings.registry import BUILT_IN_BY_KIND, algorithm_names

    kind_of = {name: kind for kind, names in BUILT_IN_BY_KIND.items() for name in names}
    kinds = {kind: list(names) for kind, names in BUILT_IN_BY_KIND.items()}
    kinds[INSTALLED] = [name for name in algorithm_names() if name not in kind_of]
    found = [_described(name, kind) for kind, names in kinds.items() for name in names]
    lines = table(
        ["algorithm", "actions", "description"],
        [[each["name"], _actions(each["actions"]), each["summary"]] for each in found],
        stdout_width(),
    ).splitlines()
    text, rows = [lines[0]], iter(lines[1:])
    for kind, names in kinds.items():
        if names:
            text += ["", f"{kind}:", *(next(rows) for _ in names)]
    advice = "`rlrun config NAME` prints an algorithm's settings, `rlrun plan NAME` its dataflow."
    print_result({"algorithms": found}, "\n".join([*text, "", advice]))


def _described(name: str, kind: str) -> dict[str, Any]:
    from rlrun.engine.messages.errors import RlrunError
    from rlrun.engine.settings.registry import BUILT_IN, algorithm_class

    try:
        algorithm = algorithm_class(name)
    except RlrunError as error:  # a broken plugin does not hide the others
        summary = f"cannot be used: {error}".partition("\n")[0]
        return {"name": name, "kind": kind, "class": None, "actions": [], "summary": summary}
    module = "rlrun.plugin" if name in BUILT_IN else algorithm.__module__
    return {
        "name": name,
        "kind": kind,
        "class": f"{module}:{algorithm.__qualname__}",
        "actions": list(algorithm.acts_in),
        "summary": (algorithm.__doc__ or "").strip().partition("\n")[0],
    }


def _actions(kinds: list[str]) -> str:
    from rlrun.engine.algorithm import Algorithm

    return "all" if kinds == list(Algorithm.acts_in) else ", ".join(kinds)
