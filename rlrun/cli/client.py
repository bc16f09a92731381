"""``rlrun client``: files that simulators copy to connect to an external env."""

from __future__ import annotations

from pathlib import Path

import click

from rlrun.cli.terminal import echo

_FILES = {"client": "client.py", "wrapper": "env_client.py"}


@click.command()
@click.option(
    "--print",
    "printed",
    type=click.Choice([*_FILES]),
    is_flag=False,
    flag_value="client",
    required=True,
    help="The client, or the wrapper that runs a Gymnasium env through it.",
)
def client(printed: str) -> None:
    """Print a file by which a simulator asks for actions.

    It connects to the server of `env: {external: ...}`.
    `rlrun client --print > rlrun_client.py` is the client, for Python 3.7 or later
    without any package. `rlrun client --print wrapper > rlrun_env_client.py` runs a
    Gymnasium env through it, and needs NumPy and Gymnasium.
    """
    import rlrun.engine.external

    folder = Path(rlrun.engine.external.__file__).parent
    echo((folder / _FILES[printed]).read_text(encoding="utf-8").rstrip("\n"))
