"""``rlrun translate FILE``: a file of RLlib or rl-zoo3 as a spec of rlrun."""

from __future__ import annotations

from pathlib import Path

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import json_option


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--env", help="Env whose settings to take from rl-zoo3, or to name for RLlib.")
@click.option("--lenient", is_flag=True, help="Leave out keys although they change what is learned.")
@click.option(
    "--version",
    type=click.Choice(["0.5", "1.13", "2.5"]),
    help="Version of RLlib whose defaults hold; default: recognised by the file's keys.",
)
@json_option("the spec as data and as text")
def translate(file: Path, env: str | None, lenient: bool, version: str | None) -> None:
    """Print a file of RLlib or rl-zoo3 as a spec of rlrun.

    Comments say which line a value comes from, and what was changed or left out,
    the most harmful first. A key that changes what is learned and has no
    counterpart is an error, unless --lenient leaves it out. For an env that RLlib
    knew from code, name yours with --env.

    \b
    rlrun translate pong-ppo.yaml > pong.yaml
    rlrun translate warehouse.yaml --env my_lab:Warehouse
    rlrun translate hyperparams/ppo.yml --env CartPole-v1
    """  # noqa: D301 (click's mark for a paragraph that stays as it is)
    import yaml

    from rlrun.bridges.files_of_others import translated_text

    number = None if version is None else tuple(map(int, version.split(".")))
    text = translated_text(file, env=env, lenient=lenient, version=number).rstrip("\n")
    print_result({"experiments": yaml.safe_load(text), "text": text}, text)
