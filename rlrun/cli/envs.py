"""``rlrun envs [TEXT]``: the known env ids, and whether each can be used here."""

from __future__ import annotations

from dataclasses import asdict

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import json_option
from rlrun.cli.tables import stdout_width, table


@click.command()
@click.argument("text", required=False)
@json_option("the envs")
def envs(text: str | None) -> None:
    """List the envs and whether each can be used here.

    With TEXT, only those whose id holds it. Besides these a spec may name any
    factory of yours as package.module:factory.
    """
    from rlrun.engine.envs.make import env_names
    from rlrun.engine.messages.errors import UsageError

    known = env_names()
    found = [env for env in known if text is None or text.lower() in env.id.lower()]
    if not found:
        from rlrun.engine.envs.env_ids import nearest_id

        raise UsageError(f"no env id holds '{text}'{nearest_id(str(text), [env.id for env in known])}")
    rows = [[env.id, env.backend, "usable" if env.usable else f"needs {env.install}"] for env in found]
    print_result({"envs": [asdict(env) for env in found]}, table(["env", "backend", "here"], rows, stdout_width()))
