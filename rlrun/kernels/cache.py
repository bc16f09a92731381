"""Compilers of updates and kernels, and the cache directory that all processes of a user share."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_directory() -> Path:
    """Directory of rlrun's cache: $RLRUN_CACHE, or `rlrun` under the user's cache directory."""
    root = os.environ.get("RLRUN_CACHE")
    if root:
        return Path(root)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlrun"


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Context manager with a file lock, so that only one process of this machine creates the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file is closed, also if the process dies
        yield


def installed_compiler(variable: str, *names: str) -> str | None:
    """Path of the compiler that an environment variable names, else of the first installed one; None if none is."""
    for name in (os.environ.get(variable), *names):
        if name and (found := shutil.which(name)):
            return found
    return None
