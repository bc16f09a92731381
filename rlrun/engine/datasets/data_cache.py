"""Cache of local copies of remote data sets, shared by all processes of a user on this machine.

Each set has a folder named by the digest of its manifest, and two lock files next to it. A process holds `.lock` while
it copies or maps a file of the set, and a shared lock on `.used` while it has the set open. The modification time of
`.used` is the time of the last opening. When a copy would exceed the size limit, the least recently opened sets are
removed, except those in use.

The cache belongs to one user. Before its first use of a copy, each process verifies the copy's digest, and copies the
file again if the digest differs or if other users may write to the copy.
"""

from __future__ import annotations

import fcntl
import hashlib
import math
import os
import shutil
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rlrun.engine.checkpoint.durable import explained_full_disk, remove_leftovers, write_pieces
from rlrun.engine.datasets.manifest import FileEntry
from rlrun.engine.kernels.cache import alone_with, cache_directory, make_private, writable_by_others
from rlrun.engine.messages.errors import UsageError

LIMIT_VARIABLE = "RLRUN_CACHE_GB"
"""Environment variable that limits the total size of all copies, in gigabytes."""

DEFAULT_LIMIT_GB = 50


def limit_bytes() -> int:
    """Returns the maximum total size of all cached copies, in bytes.

    Raises:
        UsageError: The environment variable that sets the limit is not a positive number.
    """
    text = os.environ.get(LIMIT_VARIABLE) or str(DEFAULT_LIMIT_GB)
    with suppress(ValueError, OverflowError):
        if (limit := math.ceil(float(text) * 1e9)) > 0:
            return limit
    raise UsageError(f"{LIMIT_VARIABLE} must be a positive number of gigabytes, not {text!r}")


_compared: dict[Path, tuple[int, int, int]] = {}
"""Inode, time of the last change and size of the copies that this process has compared with their digests."""


class CachedSet:
    """Cached copies of a data set's files, which no other process removes while this object exists.

    Args:
        digest: Digest of the set's manifest.

    Raises:
        OutOfResources: The cache cannot be written.
        UsageError: Other users have write access to the cache.
    """

    def __init__(self, digest: str) -> None:
        self._folder = cache_directory() / "datasets" / digest
        with explained_full_disk(self._folder, lambda: 0):
            if reason := make_private(self._folder.parent):
                raise UsageError(
                    f"{reason}: run chmod go-w, or set RLRUN_CACHE to a directory that only you can write to"
                )
            used = _opened(self._folder)
            weakref.finalize(self, os.close, used)
            fcntl.flock(used, fcntl.LOCK_SH)
            os.utime(used)
            self._folder.mkdir(0o700, exist_ok=True)
        self._read: set[str] = set()

    @contextmanager
    def file(self, entry: FileEntry, pieces: Iterable[bytes]) -> Iterator[Path]:
        """Context manager that yields the cached copy of a file, and protects the copy from removal.

        Args:
            entry: The file's entry in the manifest.
            pieces: Chunks of the file's content; read only if there is no usable copy yet.

        Raises:
            OutOfResources: The disk is full.
        """
        path = self._folder / entry.name
        with alone_with(self._folder):
            if not _is_intact(path, entry):
                path.unlink(missing_ok=True)
                remove_leftovers(self._folder)
                self._make_room(entry.size)
                write_pieces(path, pieces, entry.size)
                path.chmod(0o600)
                _compared[path] = _identity(path.stat())
            self._read.add(entry.name)
            yield path

    def release(self, entry: FileEntry) -> None:
        """Removes the cached copy of a file; existing memory maps of the copy remain readable."""
        with alone_with(self._folder):
            (self._folder / entry.name).unlink(missing_ok=True)
            self._read.discard(entry.name)

    def _make_room(self, needed: int) -> None:
        """Makes room for a file of the given size: removes sets that are not open, then leftovers of shuffle windows.

        A file of this set that this process has not read belongs to the shuffle window of another process. That process
        can still read the file if it has mapped it.
        """
        folders = _least_recently_opened(self._folder.parent)
        excess = sum(map(_bytes_in, folders)) + needed - limit_bytes()
        for folder in folders:
            if excess > 0:
                excess -= _removed(folder)
        for path in sorted(self._folder.iterdir()):
            if excess > 0 and path.name not in self._read:
                excess -= path.stat().st_size
                path.unlink()


def _is_intact(path: Path, entry: FileEntry) -> bool:
    """Whether there is a copy of a file that only this user may write to, and that has the file's size and digest."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    if _compared.get(path) == _identity(status):
        return True
    if status.st_size != entry.size or writable_by_others(path):
        return False
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256:
            return False
    _compared[path] = _identity(status)
    return True


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_ctime_ns, status.st_size


def _opened(folder: Path) -> int:
    """Returns the descriptor of the file that is locked while a set is open."""
    return os.open(folder.with_suffix(".used"), os.O_RDWR | os.O_CREAT, 0o644)


def _least_recently_opened(cache: Path) -> list[Path]:
    """Returns the folders of the sets in the cache, least recently opened first."""
    files = sorted(cache.glob("*.used"), key=lambda used: used.stat().st_mtime_ns)
    return [used.with_suffix("") for used in files]


def _bytes_in(folder: Path) -> int:
    size = 0
    with suppress(FileNotFoundError):  # another process has just removed it
        for path in folder.iterdir():
            size += path.stat().st_size
    return size


def _removed(folder: Path) -> int:
    """Removes a set unless it is open, and returns the bytes freed; its lock files stay for other processes."""
    used = _opened(folder)
    try:
        fcntl.flock(used, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    else:
        size = _bytes_in(folder)
        shutil.rmtree(folder, ignore_errors=True)
        return size
    finally:
        os.close(used)
