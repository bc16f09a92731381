"""Files that are there whole or not at all, also after a kill or a power cut, and a full disk explained.

Everything is written beside its place under a name that nobody reads, synced, and renamed; a rename is atomic, and the
synced parent directory makes it last.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rlrun.errors import DiskFull, OutOfResources

FULL_DISK_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""A full disk, a used-up quota, a limit on the size of files (`ulimit -f`)."""

READ_ONLY_ERRNOS = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""A place that this user cannot write to."""

_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{8}\.partial")


def write_file(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all, and replaces the one that was there.

    Raises:
        OutOfResources: If the disk is full; the file that was there is untouched.
    """
    partial = partial_name(path)
    with explained_full_disk(path, lambda: len(data)):
        try:
            with partial.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    sync(path.parent)


def append_line(path: Path, line: bytes) -> None:
    """Appends a line to a file, which lasts once this returns; a line that a kill has torn before stays by itself.

    Args:
        path: The file; made if need be.
        line: The line, without its end.

    Raises:
        OutOfResources: If the disk is full.
    """
    with explained_full_disk(path, lambda: len(line)), path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else b"\n" + line
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())


def put_directory(partial: Path, directory: Path) -> None:
    """Syncs a directory with all that is in it, and renames it to its place; what was there is removed.

    Replacing takes two renames: killed between them, neither the old nor the new directory stands at the place.
    """
    for path in (*partial.rglob("*"), partial):
        sync(path)
    if directory.is_dir() and any(directory.iterdir()):
        old = partial_name(directory)
        directory.rename(old)
        partial.rename(directory)
        sync(directory.parent)
        shutil.rmtree(old, ignore_errors=True)
    else:
        partial.rename(directory)  # replaces an empty directory
        sync(directory.parent)


def remove_directory(directory: Path) -> None:
    """Removes a directory so that nobody ever finds half of it under its name."""
    doomed = partial_name(directory)
    directory.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def partial_name(path: Path) -> Path:
    """Returns a fresh path beside another one, which `remove_leftovers` knows as an interrupted write."""
    return path.parent / f".{path.name}.{secrets.token_hex(4)}.partial"


def remove_leftovers(directory: Path) -> list[str]:
    """Removes what interrupted writes left in a directory; only its one writer may call it.

    Returns:
        The names of what was removed.
    """
    removed = []
    for entry in sorted(directory.iterdir()) if directory.is_dir() else []:
        if _LEFTOVER.fullmatch(entry.name):
            removed.append(entry.name)
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
    return removed


def sync(path: Path) -> None:
    """Makes what is in a file, or the names in a directory, last through a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:  # some network file systems sync names by themselves and refuse to be asked
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


@contextmanager
def explained_full_disk(path: Path, bytes_needed: Callable[[], int]) -> Iterator[None]:
    """Turns the errors of a full disk into OutOfResources with the path, what was needed and what is free.

    Args:
        path: What was being written.
        bytes_needed: Asked only when the disk is full.

    Raises:
        DiskFull: If the disk, a quota or a limit on file sizes is exhausted.
        OutOfResources: If nothing can be written there.
    """
    try:
        yield
    except OSError as error:
        if error.errno in READ_ONLY_ERRNOS:
            raise OutOfResources(f"{path}: cannot be written: {error.strerror}") from error
        if error.errno not in FULL_DISK_ERRNOS:
            raise
        if error.errno == errno.EFBIG:
            told = f"about {megabytes(bytes_needed())} are needed, more than a file may hold here: raise `ulimit -f`"
            raise DiskFull(f"{path}: {error.strerror}: {told}") from error
        free = shutil.disk_usage(next(folder for folder in path.absolute().parents if folder.exists())).free
        sizes = f"about {megabytes(bytes_needed())} are needed, {megabytes(free)} are free there"
        raise DiskFull(f"{path}: {error.strerror}: {sizes}: make room") from error


def megabytes(size: int) -> str:
    """Returns a size in bytes for people.

    Examples:
        >>> megabytes(1_234_567), megabytes(900)
        ('1.2 MB', '0.0009 MB')
    """
    return f"{size / 1e6:.1f} MB" if size >= 50_000 else f"{size / 1e6:.2g} MB"
