"""Locks that ensure that only one process executes a run, or each of its shards.

A process that executes a whole run holds the lock file ``.lock`` exclusively. Processes that execute shards share
``.lock``, and each also holds its own shard's lock file, such as ``.lock-1-of-4``. Locks end with their process, even
after a kill.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

from rlrun.engine.checkpoint.durable import explained_full_disk
from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.runs.shard import Shard

LOCK_FILE = ".lock"
MOST_NAMED = 8
"""Maximum number of processes that a message names."""

_LOOK_S = 5.0
"""Maximum seconds to wait for a lock whose holder is not known."""

_CREATION_FILE = ".lock-creation"
_SHARD_FILE = re.compile(r"\.lock-(\d+)-of-(\d+)")
_MOST_BYTES = 300


@dataclass(frozen=True)
class Driver:
    """Process that executes a run or one of its shards.

    Attributes:
        pid: Id of the process; 0 if unknown.
        host: Name of the host on which the process runs; "" if unknown.
        shard: The shard that the process executes; None for the whole run.
    """

    pid: int = 0
    host: str = ""
    shard: Shard | None = None

    @override
    def __str__(self) -> str:
        """Formats the process, with its host unless that is this machine."""
        process = f"process {self.pid}" if self.pid else "another process"
        return process if self.host in ("", platform.node()) else f"{process} on {self.host}"

    def runs(self, trial: int) -> bool:
        """Whether the process executes the trial with a given number.

        Args:
            trial: Number of the trial in the run, from 0.
        """
        return self.shard is None or self.shard.owns(trial)


def drivers_in_words(drivers: Sequence[Driver]) -> str:
    """Names the processes that execute a run, for messages.

    Examples:
        >>> drivers_in_words([Driver(12)])
        'process 12'
        >>> drivers_in_words([Driver(12, shard=Shard(0, 4)), Driver(13, shard=Shard(1, 4))])
        'processes 12 (shard 0/4) and 13 (shard 1/4)'
    """
    named = [f"{one}{f' (shard {one.shard})' if one.shard is not None else ''}" for one in drivers]
    if len(named) == 1:
        return named[0]
    last = [f"{len(named) - MOST_NAMED} more"] if len(named) > MOST_NAMED else [named.pop()]
    text = f"{', '.join(named[:MOST_NAMED])} and {last[0]}"
    return f"processes {text.replace('process ', '')}" if all(one.pid for one in drivers) else text


def who_runs(drivers: Sequence[Driver], what: str) -> str:
    """Clause such as "process 12 is running it", which names the processes that execute a run.

    Args:
        drivers: The processes.
        what: Noun or path for the run.
    """
    return f"{drivers_in_words(drivers)} {'is' if len(drivers) == 1 else 'are'} running {what}"


@contextmanager
def run_lock(run: Path, shard: Shard | None) -> Iterator[None]:
    """Context manager that locks a run or one of its shards for this process.

    Args:
        run: Directory of the run.
        shard: The shard; None for the whole run, which includes all shards.

    Raises:
        UsageError: Another process is running the run, or this shard.
        OutOfResources: The directory is not writable.
    """
    with ExitStack() as locks:
        lock = _taken(run, shard, locks)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()} {platform.node()}".encode(), 0)
        yield


def _taken(run: Path, shard: Shard | None, locks: ExitStack) -> int:
    """Locks a run or a shard until `locks` is closed; returns the descriptor of the file in which the holder is named.

    A lock that is held only briefly is waited for, since `drivers_of` takes each lock for a moment.

    Raises:
        UsageError: Another process is running the run, or this shard.
    """
    deadline = time.monotonic() + _LOOK_S
    while True:
        with ExitStack() as tried:
            try:
                lock = tried.enter_context(_locked(run / LOCK_FILE, fcntl.LOCK_EX if shard is None else fcntl.LOCK_SH))
                if shard is not None:
                    lock = tried.enter_context(_locked(_file_of(run, shard), fcntl.LOCK_EX))
                locks.enter_context(tried.pop_all())
                return lock
            except BlockingIOError:
                others = [one for one in drivers_of(run) if shard is None or one.shard in (None, shard)]
                if others or time.monotonic() >= deadline:
                    names = drivers_in_words(others or [Driver()])
                    raise UsageError(f"{run} is already running in {names}") from None
        time.sleep(0.01)


@contextmanager
def creation_lock(run: Path) -> Iterator[None]:
    """Context manager that locks the creation of a run, after waiting for any other process that is creating it.

    If several processes try to create a run, the first one creates it. The others must look for run.json only inside
    this block, because an NFS client that looks for a file too early may not see it for another half a minute.

    Args:
        run: Existing directory of the run.
    """
    with _locked(run / _CREATION_FILE, fcntl.LOCK_EX, waits=True):
        yield


def drivers_of(run: Path) -> tuple[Driver, ...]:
    """Processes that execute a run: one for the whole run, or one for each running shard; () if there is none.

    Args:
        run: Directory of the run.
    """
    matches = filter(None, map(_SHARD_FILE.fullmatch, _names(run)))
    numbers = sorted((int(match[1]), int(match[2])) for match in matches)
    shards = [Shard(index, count) for index, count in numbers if index < count]
    found = [_driver(run / LOCK_FILE, None), *(_driver(_file_of(run, shard), shard) for shard in shards)]
    return tuple(driver for driver in found if driver is not None)


def _names(run: Path) -> list[str]:
    try:
        return os.listdir(run)
    except OSError:
        return []


def _file_of(run: Path, shard: Shard) -> Path:
    return run / f"{LOCK_FILE}-{shard.index}-of-{shard.count}"


@contextmanager
def _locked(file: Path, operation: int, *, waits: bool = False) -> Iterator[int]:
    """Context manager that locks a file, which it creates if missing; yields the file's descriptor.

    Raises:
        BlockingIOError: Another process holds the lock, and `waits` is False.
    """
    with explained_full_disk(file, lambda: 0):
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(lock, operation if waits else operation | fcntl.LOCK_NB)
        yield lock
    finally:
        os.close(lock)


def _driver(file: Path, shard: Shard | None) -> Driver | None:
    """Process that holds a lock exclusively; None if there is none."""
    try:
        lock = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pid, _, host = os.pread(lock, _MOST_BYTES, 0).decode(errors="replace").strip().partition(" ")
        return Driver(int(pid) if pid.isdecimal() else 0, host, shard)
    except OSError:  # a file system without locks
        return None
    finally:
        os.close(lock)
    return None
