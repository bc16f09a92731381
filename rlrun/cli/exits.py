"""What a failed command says, and the exit code it ends with.

0 ok · 1 a bug · 2 usage or spec · 3 target missed · 4 training failed · 5 checkpoint refused · 6 environment unusable ·
7 disk or memory · 130 interrupted. A reader that closes the pipe ends the command quietly with 141, as in other tools.
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

from rlrun import signals
from rlrun.cli.json_document import JsonDocument, error_document, print_json
from rlrun.cli.settings_as_options import with_setting
from rlrun.cli.tables import counted
from rlrun.cli.terminal import echo
from rlrun.errors import (
    ExitCode,
    Interrupted,
    OutOfResources,
    RlrunError,
    RunDamaged,
    SpecError,
    TrainingFailed,
    UsageError,
)
from rlrun.trial.user_code import failure_of_user_code

CLOSED_PIPE = 141

# The user's own paths can be wrong in these ways whatever the code does; any other OSError is a bug of ours.
PATH_ERRNOS = frozenset({errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG})
FULL_DISK_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})
NO_DESCRIPTORS_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE})


@contextmanager
def explained_errors(document: JsonDocument | None = None) -> Iterator[None]:
    """Turns whatever a command raises into one text on stderr and an exit code.

    Args:
        document: What the command prints under ``--json``, which is then told the error as well.

    Raises:
        click.exceptions.Exit: With the exit code, after the text was written.
    """
    try:
        yield
        sys.stdout.flush()  # here, and not at interpreter exit, a closed pipe can still be answered quietly
    except click.ClickException as error:
        told = with_setting(error) if isinstance(error, click.NoSuchOption) else error
        if document is not None:
            document.fail(told.format_message(), told.exit_code, [])
        raise told from None
    except click.exceptions.Exit:
        raise
    except BrokenPipeError:
        _silence_stdout()
        raise click.exceptions.Exit(CLOSED_PIPE) from None
    except (KeyboardInterrupt, click.Abort):  # the latter while a question is asked
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
    """Returns the exit code for an exception and the text to show for it.

    Examples:
        >>> from rlrun.errors import CheckpointError
        >>> explain(CheckpointError("runs/a: not a checkpoint"))
        (5, 'Error: runs/a: not a checkpoint')
        >>> explain(MemoryError())
        (7, 'Error: out of memory')
    """
    if isinstance(error, SpecError | Interrupted):
        return error.exit_code, str(error)  # lines of file:line:column, which editors can jump to; or no error at all
    if isinstance(error, RlrunError):
        return error.exit_code, f"Error: {error}"
    if _is_out_of_memory(error):
        return OutOfResources.exit_code, ": ".join(["Error: out of memory", *([str(error)] if str(error) else [])])
    if isinstance(error, OSError) and error.errno in FULL_DISK_ERRNOS:
        return OutOfResources.exit_code, f"Error: no space left on the disk{_of_file(error)}"
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return OutOfResources.exit_code, f"Error: a file may not grow further{_of_file(error)}: raise `ulimit -f`"
    if isinstance(error, OSError) and error.errno in NO_DESCRIPTORS_ERRNOS:
        return OutOfResources.exit_code, f"Error: too many files are open{_of_file(error)}: raise `ulimit -n`"
    if isinstance(error, OSError) and error.errno == errno.EROFS:
        return OutOfResources.exit_code, f"Error: the file system is read-only{_of_file(error)}"
    if isinstance(error, OSError) and error.errno in PATH_ERRNOS and error.filename is not None:
        return UsageError.exit_code, f"Error: {os.fsdecode(error.filename)}: {error.strerror}"
    if signals.received:  # a library has made an error of its own of the interrupt
        return Interrupted.exit_code, "\nInterrupted."
    trace = "".join(traceback.format_exception(error)).rstrip()
    if isinstance(error, SystemExit):  # click ends a command otherwise
        return TrainingFailed.exit_code, f"Error: code outside rlrun wanted to end the process:\n{trace}"
    if (failure := failure_of_user_code(error)) is not None:  # a plugin, say, that a spec names and is made to check it
        return failure.exit_code, f"Error: {failure}"
    return (
        ExitCode.BUG,
        f"{trace}\n\nThis is a bug in rlrun. Please report it with the text above and what `rlrun doctor` prints.",
    )


def end_without_a_word(exit_code: int) -> NoReturn:
    """Ends a command whose process has ended before the command did, and which nobody else can explain.

    Args:
        exit_code: What the process ended with.
    """
    told = (
        f"the command's process ended with exit code {exit_code} in the middle of the command: code outside rlrun, "
        "such as an env's, has ended it (`_exit`). `rlrun status` says what was stepped, and `rlrun resume` goes on"
    )
    code, text = explain(TrainingFailed(told))
    echo(text, err=True)
    if "--json" in sys.argv:
        print_json(error_document(told, code, []))
    sys.exit(code)


def demand_whole(run: Path, damages: Sequence[str]) -> None:
    """Ends a command that has shown what is whole of a run, and has said what is damaged.

    Raises:
        RunDamaged: If something is.
    """
    if damages:
        raise RunDamaged(f"{run}: {counted(len(damages), 'file')} cannot be relied on")


def _is_out_of_memory(error: BaseException) -> bool:
    """Tells a lack of memory; torch reports it as a RuntimeError in words, on the CPU as on a GPU."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    if isinstance(error, ImportError):  # of a library under a limit on the address space (`ulimit -v`)
        return "failed to map segment" in str(error) or "annot allocate memory" in str(error)
    return isinstance(error, RuntimeError) and any(
        words in str(error) for words in ("out of memory", "can't allocate memory", "can't start new thread")
    )


def _of_file(error: OSError) -> str:
    return "" if error.filename is None else f": {os.fsdecode(error.filename)}"


def _silence_stdout() -> None:
    """Points stdout at nothing, so that the interpreter's last flush does not complain about the closed pipe."""
    try:
        stdout = sys.stdout.fileno()
    except (OSError, ValueError):  # a stream without a descriptor has no pipe to complain about
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), stdout)
