"""``rlrun algorithms``: the algorithms that a spec can name."""

from __future__ import annotations

from typing import Any

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import json_option
from rlrun.cli.tables import stdout_width, table


@click.command()
@json_option("the algorithms")
def algorithms() -> None:
    """List the algorithms, built in and installed."""
    from rlrun.engine.algorithm import Algorithm
    from rlrun.engine.messages.errors import RlrunError
    from rlrun.engine.settings.registry import algorithm_class, algorithm_names

    found: list[dict[str, Any]] = []
    for name in algorithm_names():
        try:
            algorithm = algorithm_class(name)
        except RlrunError as error:  # a broken plugin does not hide the others
            found.append(
                {"name": name, "class": None, "actions": [], "summary": f"cannot be used: {error}".partition("\n")[0]}
            )
            continue
        summary = (algorithm.__doc__ or "").strip().partition("\n")[0]
        path, actions = f"{algorithm.__module__}:{algorithm.__qualname__}", list(algorithm.acts_in)
        found.append({"name": name, "class": path, "actions": actions, "summary": summary})
    every = list(Algorithm.acts_in)
    rows = [
        [one["name"], "all" if one["actions"] == every else ", ".join(one["actions"]), one["summary"]] for one in found
    ]
    listed = table(["algorithm", "actions", "description"], rows, stdout_width())
    advice = "Settings of one: rlrun config ppo · its dataflow: rlrun plan ppo"
    print_result({"algorithms": found}, f"{listed}\n\n{advice}")
