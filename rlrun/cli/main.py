"""The ``rlrun`` command: its subcommands by name, each imported when it is asked for."""

from __future__ import annotations

import atexit
import faulthandler
import gc
import importlib
import os
import sys
from typing import Any

import click

from rlrun.cli.exits import explained_errors
from rlrun.cli.json_document import JsonDocument, nothing_more_on_stdout
from rlrun.cli.terminal import echo
from rlrun.errors import did_you_mean

# Section of the help -> command -> where it lives. Command files import click and nothing heavier at import time.
SECTIONS: dict[str, dict[str, str]] = {
    "Train": {
        "train": "rlrun.cli.train:train",
        "resume": "rlrun.cli.resume:resume",
        "regress": "rlrun.cli.regress:regress",
    },
    "Look at results": {
        "runs": "rlrun.cli.runs:runs",
        "status": "rlrun.cli.status:status",
        "show": "rlrun.cli.show:show",
        "compare": "rlrun.cli.compare:compare",
        "evaluate": "rlrun.cli.evaluate:evaluate",
        "play": "rlrun.cli.play:play",
        "league": "rlrun.cli.league:league",
        "oracle": "rlrun.cli.oracle:oracle",
        "record": "rlrun.cli.record:record",
        "demonstrate": "rlrun.cli.demonstrate:demonstrate",
        "plot": "rlrun.cli.plot:plot",
        "report": "rlrun.cli.report:report",
        "diagnose": "rlrun.cli.diagnose:diagnose",
    },
    "Write a spec": {
        "examples": "rlrun.cli.examples:examples",
        "init": "rlrun.cli.init:init",
        "validate": "rlrun.cli.validate:validate",
        "config": "rlrun.cli.config:config",
        "metrics": "rlrun.cli.metrics:metrics",
        "schema": "rlrun.cli.schema:schema",
        "plan": "rlrun.cli.plan:plan",
        "profile": "rlrun.cli.profile:profile",
    },
    "What is here": {
        "algorithms": "rlrun.cli.algorithms:algorithms",
        "envs": "rlrun.cli.envs:envs",
        "env": "rlrun.cli.env:env",
        "doctor": "rlrun.cli.doctor:doctor",
        "docs": "rlrun.cli.docs:docs",
        "completion": "rlrun.cli.completion:completion",
    },
}
COMMANDS: dict[str, str] = {name: target for section in SECTIONS.values() for name, target in section.items()}


class LazyGroup(click.Group):
    """A click group that imports a command's file when the command is named, and explains what it raises."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of all commands in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports a command, or returns None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command that the arguments name; a wrong name is answered with the nearest right one."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            from rlrun.foreign_names import other_command

            told = other_command(name)
            ctx.fail(f"No such command '{name}'{f'; {told}' if told else did_you_mean(name, COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands into the help, by section."""
        width = formatter.width - 6 - max(map(len, COMMANDS))
        for section, names in SECTIONS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(section):
                formatter.write_dl([(name, command.get_short_help_str(width)) for name, command in commands if command])

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Reads the command line; of an interrupt meanwhile click would make its own exit code."""
        with explained_errors():
            return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Notes whether the command is to print JSON, which holds for a mistake in its other words as well."""
        ctx.obj = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; an exception becomes one text on stderr, under ``--json`` JSON, and an exit code."""
        if not ctx.obj:
            with explained_errors():
                return super().invoke(ctx)
        with JsonDocument() as document, explained_errors(document):
            return super().invoke(ctx)


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from rlrun.checkpoint.manifest import rlrun_version

        echo(f"rlrun {rlrun_version()}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Print the version."
)
def cli() -> None:
    """Trains reinforcement-learning agents from YAML.

    Begin with `rlrun train --algorithm ppo --env CartPole-v1`, or write a spec and `rlrun train -f my.yaml`.
    """


def main() -> None:
    """Runs the command line of this process and exits."""
    _occupy_closed_streams()
    atexit.register(gc.freeze)  # else Python looks through all of torch's objects before it exits, for 0.3 s
    faulthandler.enable(sys.stderr)  # an env's native code that crashes takes this process with it
    try:
        cli(prog_name="rlrun")
    finally:
        if "--json" in sys.argv:
            nothing_more_on_stdout()  # nor from the exit functions of an env


def _occupy_closed_streams() -> None:
    """Opens streams that the caller has closed (``2>&-``) on nothing; each open takes the lowest free descriptor."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 (open as long as the process lives)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
