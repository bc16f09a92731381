"""Error handling of commands: exceptions become a message and an exit code.

0 ok · 1 a bug · 2 usage or spec · 3 target missed · 4 training failed · 5 checkpoint refused · 6 environment unusable ·
7 disk or memory · 8 taken over · 130 interrupted. A closed pipe ends the command silently with 141, as in other tools.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

import click

from rlrun.cli.json_document import JsonDocument, json_form
from rlrun.cli.tables import counted, echo
from rlrun.engine.messages.errors import (
    ExitCode,
    Interrupted,
    OutOfResources,
    RlrunError,
    RunDamaged,
    SpecError,
    TrainingFailed,
    UsageError,
    is_out_of_memory,
)
from rlrun.engine.processes import signals
from rlrun.engine.processes.restart_note import directories_to_continue
from rlrun.engine.processes.waiting_parent import UnexpectedEnd, die_by
from rlrun.experiments.trial.user_code import failure_of_user_code

CLOSED_PIPE = 141

# Errors about paths that the user named; any other OSError is a bug in rlrun.
PATH_ERRNOS = frozenset({errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG})
LACKS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), ("no space left on the disk", "")),
    errno.EFBIG: ("a file has reached the size limit", ": raise `ulimit -f`"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), ("too many open files", ": raise `ulimit -n`")),
    errno.EROFS: ("the file system is read-only", ""),
}
"""Messages for disk errors: errno -> the text before and the text after the file's name."""


@contextmanager
def explained_errors(document: JsonDocument | None = None) -> Iterator[None]:
    """Context manager that turns any exception of a command into a message on stderr and an exit code.

    Args:
        document: JSON document of the command, in which the error is also reported; None for text output.

    Raises:
        click.exceptions.Exit: With the exit code, after the message has been written.
    """
    try:
        yield
        sys.stdout.flush()  # if left to the interpreter's exit, a closed pipe would cause an error message
    except click.ClickException as error:
        shown = with_setting(error) if isinstance(error, click.NoSuchOption) else error
        if document is not None:
            document.fail(shown.format_message(), shown.exit_code, [])
        raise shown from None
    except click.exceptions.Exit:
        raise
    except BrokenPipeError:
        _silence_stdout()
        raise click.exceptions.Exit(CLOSED_PIPE) from None
    except (KeyboardInterrupt, click.Abort):  # prompts raise Abort
        echo("\nInterrupted.", err=True)
        if document is not None:
            document.fail("Interrupted.", Interrupted.exit_code, [])
        raise click.exceptions.Exit(Interrupted.exit_code) from None
    except (Exception, SystemExit) as error:
        code, text = explain(error)
        echo(text, err=True)
        if document is not None:
            problems = [asdict(problem) for problem in error.problems] if isinstance(error, SpecError) else []
            document.fail(text.strip().removeprefix("Error: "), code, problems)
        raise click.exceptions.Exit(code) from None


def explain(error: Exception | SystemExit) -> tuple[int, str]:
    """Maps an exception to an exit code and a message.

    Examples:
        >>> from rlrun.engine.messages.errors import CheckpointError
        >>> explain(CheckpointError("runs/a: not a checkpoint"))
        (<ExitCode.CHECKPOINT_REFUSED: 5>, 'Error: runs/a: not a checkpoint')
        >>> explain(MemoryError())
        (<ExitCode.DISK_OR_MEMORY: 7>, 'Error: out of memory')
    """
    if isinstance(error, SpecError | Interrupted):
        return error.exit_code, str(error)  # spec mistakes begin with file:line:column; an interrupt is not an error
    if isinstance(error, RlrunError):
        return error.exit_code, f"Error: {error}"
    if is_out_of_memory(error):
        return OutOfResources.exit_code, ": ".join(["Error: out of memory", *([str(error)] if str(error) else [])])
    if isinstance(error, OSError) and error.errno in LACKS:
        message, advice = LACKS[error.errno]
        file = "" if error.filename is None else f": {os.fsdecode(error.filename)}"
        return OutOfResources.exit_code, f"Error: {message}{file}{advice}"
    if isinstance(error, OSError) and error.errno in PATH_ERRNOS and error.filename is not None:
        return UsageError.exit_code, f"Error: {os.fsdecode(error.filename)}: {error.strerror}"
    if signals.received:  # a library has turned the interrupt into its own exception
        return Interrupted.exit_code, "\nInterrupted."
    trace = "".join(traceback.format_exception(error)).rstrip()
    if isinstance(error, SystemExit):  # click raises none here, so other code did
        return TrainingFailed.exit_code, f"Error: code outside rlrun tried to end the process:\n{trace}"
    if (failure := failure_of_user_code(error)) is not None:  # for example, of a plugin that a spec names
        return failure.exit_code, f"Error: {failure}"
    return (
        ExitCode.BUG,
        (f"{trace}\n\nThis is a bug in rlrun. Please report it with the text above and the output of `rlrun doctor`."),
    )


def report_unexpected_end(end: UnexpectedEnd) -> NoReturn:
    """Runs in a command's parent process: reports that the command ended without a message, and exits in the same way.

    Args:
        end: The end of the process.
    """
    from rlrun.experiments.runs.outcome import resume_commands

    command = resume_commands(directories_to_continue())
    if end.code < 0:
        if command:
            echo(f"Error: the driver {end}; continue with: {command}", err=True)
        die_by(-end.code)
    message = (
        f"the process {end}, because code outside rlrun, such as an env, called `os._exit`. `rlrun status` shows the "
        f"episode; continue with: {command or 'rlrun resume RUN'}"
    )
    code, text = explain(TrainingFailed(message))
    echo(text, err=True)
    if form := json_form(sys.argv):
        JsonDocument(form).fail(message, code, [])
    sys.exit(code)


def require_complete(run: Path, damages: Sequence[str]) -> None:
    """Raises an error if files of a run are damaged. Call it after printing the undamaged parts.

    Raises:
        RunDamaged: If `damages`, a list of messages, is not empty.
    """
    if damages:
        raise RunDamaged(f"{run}: {counted(len(damages), 'file')} {'is' if len(damages) == 1 else 'are'} damaged")


def _silence_stdout() -> None:
    """Redirects stdout to /dev/null, so that the interpreter's last flush does not fail at the closed pipe."""
    try:
        stdout = sys.stdout.fileno()
    except (OSError, ValueError):  # a stream without a descriptor has no pipe
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), stdout)


def with_setting(error: click.NoSuchOption) -> click.UsageError:
    """Adds the correct ``--set`` syntax to an unknown-option error, if the option's name is a setting of specs.

    The user may have typed ``--lr`` instead of ``--set config.lr=VALUE``.

    Args:
        error: Click's error about an unknown option; returned unchanged if the command has no option ``--set``.
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
    return click.UsageError(f"No such option '{error.option_name}'; use {' or '.join(ways)}", error.ctx)
