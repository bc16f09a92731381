"""``rlrun envs [TEXT]``: the known env ids, and whether each can be used here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import json_option
from rlrun.cli.tables import stdout_width, table

if TYPE_CHECKING:
    from rlrun.engine.envs.env_listing import EnvListing

MOST_LISTED = 12
"""Number of envs that are listed of each family if there is no TEXT."""


@click.command()
@click.argument("text", required=False)
@json_option("the envs")
def envs(text: str | None) -> None:
    """List the envs and whether each can be used here.

    With TEXT, only the ids that contain it. A spec can also name any factory
    of yours as package.module:factory.
    """
    from rlrun.engine.envs.env_listing import env_names
    from rlrun.engine.messages.errors import UsageError

    known = env_names()
    found = [env for env in known if text is None or text.lower() in env.id.lower()]
    if not found:
        from rlrun.engine.envs.env_ids import nearest_id

        raise UsageError(f"no env id contains '{text}'{nearest_id(str(text), [env.id for env in known])}")
    families = {family: list(envs) for family, envs in groupby(found, lambda env: env.family)}
    rows = [
        [env.id, family, env.backend, "usable" if env.usable else f"needs {env.install}"]
        for family, envs in families.items()
        for env in (envs if text else newest(envs)[:MOST_LISTED])
    ]
    lines = [table(["env", "family", "backend", "here"], rows, stdout_width())]
    if len(rows) < len(found):
        more = len(found) - len(rows)
        lines.append(f"{more} more, older versions and Atari games: `rlrun envs TEXT` lists all ids that contain TEXT.")
    print_result({"envs": [asdict(env) for env in found]}, "\n\n".join(lines))


def newest(envs: Sequence[EnvListing]) -> list[EnvListing]:
    """Returns the newest version of each env in a family; for Atari, only the ids under `ALE/`."""
    from gymnasium.envs.registration import parse_env_id

    latest: dict[tuple[str | None, str], tuple[int, EnvListing]] = {}
    for env in envs:
        namespace, name, version = parse_env_id(env.id)
        if env.family == "atari" and namespace is None:
            continue
        known = latest.get((namespace, name))
        if known is None or (version or 0) > known[0]:
            latest[namespace, name] = (version or 0, env)
    return [env for _, env in latest.values()]
