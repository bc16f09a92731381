"""``rlrun envs [TEXT]``: the env ids known here, and whether each can be used."""

from __future__ import annotations

import click

from rlrun.cli.options import json_option, print_json
from rlrun.cli.tables import stdout_width, table


@click.command()
@click.argument("text", required=False)
@json_option("the envs")
def envs(text: str | None, as_json: bool) -> None:
    """List the envs and whether each can be used here.

    With TEXT, only those whose id holds it. Besides these a spec may name any factory of yours as package.module:factory.
    """
    from rlrun.errors import UsageError

    known = _known_envs()
    found = [env for env in known if text is None or text.lower() in env["id"].lower()]
    if not found:
        from rlrun.envs.env_ids import nearest_id

        raise UsageError(f"no env id holds '{text}'{nearest_id(str(text), [env['id'] for env in known])}")
    if as_json:
        print_json(found)
        return
    rows = [[env["id"], "usable" if not env["problem"] else env["problem"]] for env in found]
    click.echo(table(["env", "here"], rows, stdout_width()))


def _known_envs() -> list[dict[str, str]]:
    """Returns id and problem ("" if it is usable) of every env, sorted by id."""
    import gymnasium

    from rlrun.envs.env_ids import check_installed, env_names
    from rlrun.errors import EnvironmentUnusable

    known = []
    for name in env_names():
        try:
            check_installed(gymnasium.spec(name))
            known.append({"id": name, "problem": ""})
        except EnvironmentUnusable as error:
            known.append({"id": name, "problem": str(error)})
    return known
