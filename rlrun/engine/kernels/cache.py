"""Lookup of the C compiler, and the cache directory for compiled code that all processes of a user share."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_directory() -> Path:
    """Returns the directory of rlrun's cache: $RLRUN_CACHE, or `rlrun` in the user's cache directory."""
    root = os.environ.get("RLRUN_CACHE")
    if root:
        return Path(root)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlrun"


def writable_by_others(path: Path) -> str:
    """Returns the reason why other users could write to a file or directory; "" if only this user or root can.

    Raises:
        OSError: The file or directory does not exist.
    """
    status = path.stat()
    if status.st_uid not in (os.getuid(), 0):
        return f"{path} belongs to another user"
    return f"{path} is writable by other users" if status.st_mode & 0o022 else ""


def make_private(directory: Path) -> str:
    """Creates a directory for this user only; returns the reason if others can write to it or its parent, else "".

    Raises:
        OSError: The directory cannot be created.
    """
    for place in (directory.parent, directory):
        place.mkdir(0o700, parents=True, exist_ok=True)
    return writable_by_others(directory) or writable_by_others(directory.parent)


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Context manager that locks a file, so that only one process on this machine creates it at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file is closed, even if the process dies
        yield


def installed_compiler(variable: str, *names: str) -> str | None:
    """Returns the path of the compiler named by an environment variable, or else of the first one on the PATH.

    The result is None if there is none.
    """
    for name in (os.environ.get(variable), *names):
        if name and (found := shutil.which(name)):
            return found
    return None
