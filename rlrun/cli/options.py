"""Options that several commands share, so that they mean the same everywhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

RUNS_VARIABLE = "RLRUN_RUNS"


class OutputFile(click.Path):
    """A file to be written: whether its folder is there is told before any work is done for it."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the path; a usage error if its folder does not exist."""
        path = super().convert(value, param, ctx)
        folder = Path(os.fsdecode(path)).absolute().parent
        if not folder.is_dir():
            self.fail(f"the folder {folder} does not exist", param, ctx)
        return path


def json_option(what: str) -> Callable[[Command], Command]:
    """Makes the ``--json`` flag.

    Args:
        what: What is printed, such as "the runs", for the help text.
    """
    return click.option(
        "--json", "as_json", is_flag=True, help=f"Print {what} as JSON on stdout and nothing else there."
    )


def runs_dir_option(command: Command) -> Command:
    """Adds ``--runs-dir``: the folder that holds the runs."""
    option = click.option(
        "--runs-dir",
        type=click.Path(file_okay=False, path_type=Path),
        envvar=RUNS_VARIABLE,
        default=Path("runs"),
        show_default=f"${RUNS_VARIABLE} or ./runs",
        help="The folder that holds the runs.",
    )
    return option(command)


def spec_files_option(*, required: bool) -> Callable[[Command], Command]:
    """Makes ``-f FILE``, which may be given several times.

    Args:
        required: Whether at least one file must be given.
    """
    return click.option(
        "-f",
        "--file",
        "files",
        type=click.Path(path_type=Path),  # whether it can be read is told by the spec's own message
        multiple=True,
        required=required,
        help="A spec file (YAML), or a folder for all in it; may be given several times.",
    )


def set_option(command: Command) -> Command:
    """Adds ``--set a.b=c``, which overrides what the spec files say."""
    option = click.option(
        "--set",
        "overrides",
        metavar="KEY=VALUE",
        multiple=True,
        help="Override a value of every experiment, such as config.lr=1e-3; may be given several times.",
    )
    return option(command)


def metric_options(command: Command) -> Command:
    """Adds ``--metric`` and ``--mode``: by what trials are judged."""
    mode = click.option(
        "--mode",
        type=click.Choice(["max", "min"]),
        help="Whether more or less of the metric is better; default: as the run's scheduler says, else max.",
    )
    metric = click.option(
        "--metric", help="What trials are judged by; default: what the run's scheduler or best checkpoint goes by."
    )
    return metric(mode(command))


def axis_option(command: Command) -> Command:
    """Adds ``--x``: over what curves are seen."""
    option = click.option(
        "--x",
        "axis",
        type=click.Choice(["env_steps", "time"]),
        default="env_steps",
        show_default=True,
        help="What curves run over: env steps, or seconds of training.",
    )
    return option(command)


def max_trials_option(command: Command) -> Command:
    """Adds ``--max-trials N``: how many trials an experiment may have, without which an immense sweep is refused."""
    option = click.option(
        "--max-trials",
        type=click.IntRange(min=1),
        metavar="N",
        help="Refuse an experiment that has more trials than N, which is 10,000 unless told otherwise.",
    )
    return option(command)


def trust_option(command: Command) -> Command:
    """Adds ``--trust``: follow what a checkpoint or run names even where nobody has vouched for it."""
    option = click.option("--trust", is_flag=True, help="Allow code, files and services that a stranger's run names.")
    return option(command)


def complete_algorithms(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Returns the algorithm names that begin with what was typed, for the shell's completion."""
    from rlrun.registry import algorithm_names

    return [name for name in algorithm_names() if name.startswith(incomplete)]
