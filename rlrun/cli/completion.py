"""``rlrun completion SHELL``: prints the script for shell completion of commands and options."""

from __future__ import annotations

import click

from rlrun.cli.terminal import echo

HOW_TO = {
    "bash": '# Put this into ~/.bashrc:  eval "$(rlrun completion bash)"',
    "zsh": '# Put this into ~/.zshrc:  eval "$(rlrun completion zsh)"',
    "fish": "# Write this into ~/.config/fish/completions/rlrun.fish",
}


_ADDS_IN_BASH = "COMPREPLY+=($value)"


@click.command()
@click.argument("shell", type=click.Choice(list(HOW_TO)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    shell_class = get_completion_class(shell)
    if shell_class is None:  # a version of click may drop one of the three
        raise click.UsageError(f"click has no completion for {shell}")
    group = ctx.find_root().command
    script = shell_class(group, {}, "rlrun", "_RLRUN_COMPLETE").source()
    # The value of a setting follows its key at once, so bash shall add no space after `config.lr=`.
    no_space = f"{_ADDS_IN_BASH}\n            [[ $value == *= ]] && compopt -o nospace 2> /dev/null"
    echo(f"{HOW_TO[shell]}\n{script.replace(_ADDS_IN_BASH, no_space)}")
