"""Shared command-line options with a uniform meaning in all commands."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from typing_extensions import override

from rlrun.cli.completers import RUNS_VARIABLE, complete_settings, complete_specs, complete_tags
from rlrun.engine.data.action_kind import ACTION_KINDS

Command = TypeVar("Command", bound=Callable[..., Any])


class OutputFile(click.Path):
    """Type of an option that names a file to write, whose folder must exist before any work is done.

    Args:
        or_folder: Whether it may name a folder to write, too.
    """

    def __init__(self, *, or_folder: bool = False) -> None:
        super().__init__(dir_okay=or_folder, path_type=Path)

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        folder = Path(os.fsdecode(path)).absolute().parent
        if not folder.is_dir():
            self.fail(f"the folder {folder} does not exist", param, ctx)
        return path


runs_dir_option = click.option(
    "--runs-dir",
    type=click.Path(file_okay=False, path_type=Path),
    envvar=RUNS_VARIABLE,
    default=Path("runs"),
    show_default=f"${RUNS_VARIABLE} or ./runs",
    help="The folder that holds the runs.",
)
"""Command decorator: option ``--runs-dir``, the folder that holds the runs."""

set_option = click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    shell_complete=complete_settings,
    help="Override a value of every experiment, such as config.lr=1e-3; may be given several times.",
)
"""Command decorator: option ``--set a.b=c``, which overrides values of the spec files."""

machine_option = click.option(
    "--machine", help="Take the settings of this one of the spec's machines, such as cluster: --set machine=cluster."
)
"""Command decorator: option ``--machine``, which chooses among the `machines` of a spec."""

axis_option = click.option(
    "--x",
    "axis",
    type=click.Choice(["env_steps", "sgd_steps", "time"]),
    help="Horizontal axis of curves: steps, or seconds of training. Default: env_steps, or sgd_steps where one of the "
    "runs learns from data alone.",
)
"""Command decorator: option ``--x``, the horizontal axis of curves."""


def progress_options(command: Command) -> Command:
    """Command decorator: options ``--progress`` and ``--quiet``, how `watching` displays a run."""
    progress = click.option(
        "--progress",
        type=click.Choice(["lines", "json"]),
        help="Lines on stderr, or a JSON object per line on stdout; default: a live screen on a terminal, else lines.",
    )
    quiet = click.option("-q", "--quiet", is_flag=True, help="Show no progress, only the results and errors.")
    return progress(quiet(command))


tag_option = click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_tags,
    help="Tag the run, to find it again; may be given several times.",
)
"""Command decorator: repeatable option ``--tag NAME``, tags of a run."""

note_option = click.option("--note", metavar="TEXT", help="A note on the run, which lists and reports show.")
"""Command decorator: option ``--note TEXT``, the note on a run."""

max_trials_option = click.option(
    "--max-trials",
    type=click.IntRange(min=1),
    metavar="N",
    help="Refuse an experiment that has more than N trials (10,000 by default).",
)
"""Command decorator: option ``--max-trials N``, the number of trials above which a sweep is refused."""

actions_option = click.option(
    "--actions",
    type=click.Choice(ACTION_KINDS),
    help="Take the most likely actions (greedy), or sample them; default: as the run's evaluations do.",
)
"""Command decorator: option ``--actions``, whether a saved policy acts greedily or samples its actions."""

trust_option = click.option("--trust", is_flag=True, help="Allow code, files and services that a stranger's run names.")
"""Command decorator: flag ``--trust``, which allows code and files that an untrusted checkpoint or run names."""

executor_option = click.option(
    "--executor",
    type=click.Choice(["local", "ray"]),
    help="Executor of trials; default: local for a single trial without workers, else ray.",
)
"""Command decorator: option ``--executor``, which runs trials in this process or under Ray Tune."""

address_option = click.option("--address", help="Join the Ray cluster at this address, or at `auto` this node's.")
"""Command decorator: option ``--address``, a Ray cluster to join."""

mode_option = click.option(
    "--mode",
    type=click.Choice(["max", "min"]),
    help="Whether more or less of the metric is better; default: that of the run's scheduler, else max.",
)
"""Command decorator: option ``--mode``, whether a metric is maximized or minimized."""


def metric_options(command: Command) -> Command:
    """Command decorator: options ``--metric`` and ``--mode``, by which trials are ranked."""
    metric = click.option(
        "--metric", help="Metric by which trials are judged; default: that of the run's scheduler or best checkpoint."
    )
    return metric(mode_option(command))


def json_option(what: str) -> Callable[[Command], Command]:
    """Creates a command decorator for the flag ``--json``, which `print_result` evaluates.

    Args:
        what: The printed data, such as "the runs", for the help text.
    """
    help_text = f"Print {what} as JSON on stdout and nothing else there."
    return click.option("--json", is_flag=True, expose_value=False, help=help_text)


def spec_files_option(command: Command) -> Command:
    """Command decorator: repeatable option ``-f FILE``, spec files."""
    option = click.option(
        "-f",
        "--file",
        "files",
        type=click.Path(path_type=Path),  # a file that cannot be read gets the message of spec files
        multiple=True,
        shell_complete=complete_specs,
        help="A spec file (YAML), or a folder for all in it; may be given several times.",
    )
    return option(command)
