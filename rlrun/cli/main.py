"""The ``rlrun`` command: its subcommands by name, each imported on use."""

from __future__ import annotations

import atexit
import faulthandler
import gc
import importlib
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import click
from typing_extensions import override

from rlrun.cli.exits import explained_errors
from rlrun.cli.json_document import JsonDocument, json_form, redirect_later_stdout
from rlrun.cli.tables import echo
from rlrun.engine.messages.errors import did_you_mean

# Commands by section. `rlrun X` calls the function X in cli/X.py, or in the file named below. None of these files
# imports anything heavier than click at import time.
SECTIONS = {
    "First steps": (
        "train", "evaluate", "resume", "runs", "show", "report",
        "compare", "plot", "env", "init", "examples", "doctor",
    ),
    "Training": ("regress", "verify", "client", "import-sb3"),
    "Results": ("status", "label", "diff", "diagnose", "record", "play", "league", "oracle"),
    "Recorded data": ("dataset", "demonstrate", "ope"),
    "Deployment": ("serve", "export", "card"),
    "Specs": ("validate", "config", "metrics", "plan", "profile", "translate", "schema"),
    "Installation": ("algorithms", "envs", "docs", "completion"),
}  # fmt: skip
COMMANDS = tuple(name for names in SECTIONS.values() for name in names)
FILES = {
    **dict.fromkeys(("config", "metrics", "plan"), "algorithms"),
    **dict.fromkeys(("client", "completion", "docs", "examples", "schema"), "shipped"),
    "envs": "env",
    "label": "runs",
    "translate": "import_sb3",
}
"""Commands that are defined in the module of another command: command -> module."""

WITH_PLACE = warnings.formatwarning
"""Python's own format of warnings, with their place in the source."""


class LazyGroup(click.Group):
    """Click group that imports a command's module lazily, and converts exceptions to messages and exit codes."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"rlrun.cli.{FILES.get(name, name)}"), name)
        return command

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolves the subcommand in the arguments; the error for an unknown name suggests the most similar one."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            from rlrun.engine.messages.foreign_names import other_command

            advice = other_command(name)
            ctx.fail(f"No such command '{name}'{f'; {advice}' if advice else did_you_mean(name, COMMANDS)}")
        return super().resolve_command(ctx, args)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Formats the help: subcommands for beginners, one per line, followed by the names of all others."""
        first, *others = SECTIONS.items()
        names, commands = first[1], [self.get_command(ctx, name) for name in first[1]]
        width = formatter.width - 6 - max(map(len, names))
        with formatter.section("Commands to start with"):
            formatter.write_dl(
                [(command.name or "", command.get_short_help_str(width)) for command in commands if command]
            )
        with formatter.section("More commands (`rlrun COMMAND --help` explains each)"):
            formatter.write_dl([(section, ", ".join(names)) for section, names in others])

    @override
    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parses the command line; an interrupt during parsing ends with rlrun's exit code instead of click's."""
        with explained_errors():
            return super().make_context(info_name, args, parent, **extra)

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Records the requested output form (JSON or text) before parsing, so that errors in arguments use it too."""
        ctx.obj = json_form(args)
        return super().parse_args(ctx, args)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; exceptions become a message (with ``--json`` a JSON document) and an exit code."""
        if ctx.obj is None:
            with explained_errors():
                return super().invoke(ctx)
        with JsonDocument(ctx.obj) as document, explained_errors(document):
            return super().invoke(ctx)


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from rlrun.engine.checkpoint.manifest import rlrun_version
        from rlrun.experiments.runs.provenance import own_commit

        echo(" ".join([f"rlrun {rlrun_version()}", *(f"(commit {commit[:12]})" for commit in own_commit().values())]))
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Print the version."
)
def cli() -> None:
    """Train reinforcement-learning agents from YAML.

    Start with `rlrun train --algorithm ppo --env CartPole-v1`, or write a spec and run `rlrun train -f my.yaml`.
    """


def main() -> None:
    """Runs the command line of this process and exits."""
    _occupy_closed_streams()
    atexit.register(gc.freeze)  # otherwise a garbage collection of torch's objects delays the exit by 0.3 s
    warnings.formatwarning = warning_text
    faulthandler.enable(sys.stderr)  # prints the traceback if an env's native code crashes
    try:
        cli(prog_name="rlrun")
    finally:
        if json_form(sys.argv):
            redirect_later_stdout()  # an env's exit functions may still print


def warning_text(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Formats a Python warning: one of rlrun's own as a single line, and others with their place in the source.

    Args:
        message: The warning.
        category: Its class.
        filename: File to which the warning is attributed.
        lineno: Line number in the file.
        line: Text of this line; None to read it from the file.
    """
    if category is UserWarning and Path(filename).is_relative_to(Path(__file__).parents[1]):
        return f"warning: {message}\n"
    return WITH_PLACE(message, category, filename, lineno, line)


def _occupy_closed_streams() -> None:
    """Opens /dev/null for streams that the caller has closed (``2>&-``); each takes the lowest free descriptor."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 (stays open until the process ends)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
