"""Atomic and durable file writes that survive kills and power cuts, with clear errors for a full disk.

Everything is written under a temporary name in the same directory, synced, and renamed. A rename is atomic, and syncing
the parent directory makes it durable.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rlrun.engine.messages.errors import DiskFull, OutOfResources

FULL_DISK_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers for a full disk, an exhausted quota, or a limit on file sizes (`ulimit -f`)."""

READ_ONLY_ERRNOS = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""Error numbers for locations without write permission."""

_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{8}\.partial")


def write_file(path: Path, data: bytes) -> None:
    """Writes a file atomically, replacing an existing one.

    Raises:
        OutOfResources: The disk is full; the existing file is unchanged.
    """
    write_pieces(path, [data], len(data))


def write_pieces(path: Path, pieces: Iterable[bytes], size: int) -> None:
    """Writes a file atomically from chunks of bytes; if the iterator of chunks raises an error, no file is written.

    Args:
        path: The file; an existing one is replaced.
        pieces: Chunks of the file's content.
        size: Size of the content in bytes.

    Raises:
        OutOfResources: The disk is full; the existing file is unchanged.
    """
    partial = partial_name(path)
    with explained_full_disk(path, lambda: size):
        try:
            with partial.open("xb") as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    sync(path.parent)


def append_line(path: Path, line: bytes) -> None:
    """Appends a line to a file durably; starts a new line if an interrupted write left an incomplete one.

    Args:
        path: The file; created if missing.
        line: The line, without a newline.

    Raises:
        OutOfResources: The disk is full.
    """
    with explained_full_disk(path, lambda: len(line)), path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else b"\n" + line
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())


def commit_directory(partial: Path, directory: Path) -> None:
    """Syncs a directory with all its files and renames it to its final path, replacing an existing directory.

    Replacing takes two renames: if the process is killed between them, neither directory is at the final path.
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
    """Removes a directory, after renaming it, so that a partly removed directory never has the original name."""
    doomed = partial_name(directory)
    directory.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def partial_name(path: Path) -> Path:
    """Returns a temporary path for a write in progress, in the same directory as the final path.

    `remove_leftovers` recognizes the path.
    """
    return path.parent / f".{path.name}.{secrets.token_hex(4)}.partial"


def is_leftover(path: Path) -> bool:
    """Whether a path is a temporary path from `partial_name`, left behind by an interrupted write."""
    return _LEFTOVER.fullmatch(path.name) is not None


def remove_leftovers(directory: Path) -> list[str]:
    """Removes temporary files of interrupted writes from a directory; only the directory's single writer may call this.

    Returns:
        Names of the removed files.
    """
    removed = []
    for entry in sorted(directory.iterdir()) if directory.is_dir() else []:
        if is_leftover(entry):
            removed.append(entry.name)
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
    return removed


def sync(path: Path) -> None:
    """Flushes a file, or a directory's entries, to disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:  # some network file systems do not support syncing directories
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


@contextmanager
def explained_full_disk(path: Path, bytes_needed: Callable[[], int]) -> Iterator[None]:
    """Context manager that turns the OS error of a full disk into one that names the path, needed space and free space.

    Args:
        path: Path that is written to.
        bytes_needed: Function that returns the needed space; called only if the disk is full.

    Raises:
        DiskFull: The disk, a quota or a limit on file sizes is exhausted.
        OutOfResources: The path cannot be written.
    """
    try:
        yield
    except OSError as error:
        if error.errno in READ_ONLY_ERRNOS:
            raise OutOfResources(f"{path}: cannot write: {error.strerror}") from error
        if error.errno not in FULL_DISK_ERRNOS:
            raise
        if error.errno == errno.EFBIG:
            size = megabytes(bytes_needed())
            limit = f"it needs about {size}, which exceeds the file size limit; raise it with `ulimit -f`"
            raise DiskFull(f"{path}: {error.strerror}: {limit}") from error
        free = shutil.disk_usage(next(folder for folder in path.absolute().parents if folder.exists())).free
        sizes = f"it needs about {megabytes(bytes_needed())}, but only {megabytes(free)} is free"
        raise DiskFull(f"{path}: {error.strerror}: {sizes}: free some space") from error


def megabytes(size: int) -> str:
    """Formats a size in bytes as text.

    Examples:
        >>> megabytes(1_234_567), megabytes(900)
        ('1.2 MB', '0.0009 MB')
    """
    return f"{size / 1e6:.1f} MB" if size >= 50_000 else f"{size / 1e6:.2g} MB"
