"""Note from a command's process to its waiting parent: which directories to continue after its death, and how often.

The parent opens an in-memory file before it forks. The command's process writes the note once all directories exist,
and never changes it. When that process has died, the parent and the process that it then starts read the note.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

_file: int | None = None
"""File descriptor of the note, None in processes without a waiting parent that restarts them."""

_notify: Callable[[], object] = lambda: None  # noqa: E731 (a variable)


def open_note() -> None:
    """Opens the note in which a process forked from this one lists the runs to resume if it dies."""
    global _file
    _file = os.memfd_create("rlrun-restarts")


def notify_by(notify: Callable[[], object]) -> None:
    """Sets the function that wakes the parent after the note has been written."""
    global _notify
    _notify = notify


def leave_note(restarts: int, directories: Sequence[Path]) -> None:
    """Writes the note; has no effect if there is already one, or no parent to read it.

    Args:
        restarts: Number of times that the parent may restart this process.
        directories: Absolute paths of the directories of the runs that a restarted process resumes, in order.
    """
    if _file is not None and read_note() is None:
        text = "\0".join([str(restarts), *map(str, directories), ""])
        os.pwrite(_file, text.encode(errors="surrogateescape"), 0)
        _notify()


def read_note() -> tuple[int, list[Path]] | None:
    """Reads the number of restarts and the directories; None if there is no note."""
    if _file is None:
        return None
    restarts, *directories = os.pread(_file, os.fstat(_file).st_size, 0).decode(errors="surrogateescape").split("\0")
    return (int(restarts), [Path(directory) for directory in directories[:-1]]) if restarts else None


def directories_to_continue() -> list[Path]:
    """Directories of the runs to resume if this process replaces a dead one; empty for a command's first process."""
    note = read_note()
    return [] if note is None else note[1]
