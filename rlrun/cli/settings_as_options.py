"""Suggestions for settings that are typed as options, as in other libraries: ``--total-timesteps 1e5``."""

from __future__ import annotations

import click


def with_setting(error: click.NoSuchOption) -> click.UsageError:
    """Converts an unknown-option error to one with the correct ``--set`` syntax, if the option is a setting.

    Args:
        error: The error about an unknown option, which can be a setting if the command has ``--set``.
    """
    command = None if error.ctx is None else error.ctx.command
    options = set() if command is None else {name for parameter in command.params for name in parameter.opts}
    if "--set" not in options:
        return error
    from rlrun.experiments.spec.keys import paths_of

    paths = paths_of(error.option_name.lstrip("-").replace("-", "_"))
    if not paths:
        return error
    ways = [f"--{path}" if f"--{path}" in options else f"--set {path}=VALUE" for path in paths]
    return click.UsageError(f"No such option '{error.option_name}'; write {' or '.join(ways)}", error.ctx)
