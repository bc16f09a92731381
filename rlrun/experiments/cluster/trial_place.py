"""Working directory of a trial's process: local inside the run's directory, or a mirror on another machine.

On one machine, and on a file system that all machines share, trials write into the run's directory (`TrialPlace`). On
another machine a trial works in a mirror (`TrialMirror`), initialized with the files that it needs to resume. After
each step, the changes are sent to the run's directory on the driver's disk, which is therefore always complete.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from typing_extensions import override

from rlrun.engine.checkpoint.durable import partial_name, write_file
from rlrun.engine.checkpoint.manifest import MANIFEST_FILE
from rlrun.engine.checkpoint.own_digest import with_new_digest
from rlrun.engine.messages.errors import RlrunError, UsageError
from rlrun.experiments.cluster.driver_files import Operation, RemoteFiles, RunFiles
from rlrun.experiments.runs.file_items import Item, files_of_checkpoint, items_of
from rlrun.experiments.trial.results import CSV_FILE, RESULT_FILE
from rlrun.experiments.trial.slow_iterations import PROGRESS_FILE
from rlrun.experiments.trial.trial_directory import CLAIM_TIMEOUT_S, ERROR_FILE, TRIAL_FILE

SCRATCH_VARIABLE = "RLRUN_SCRATCH"
"""Environment variable for a scratch folder on a node; forces mirrors even if the run's directory is accessible."""

PIECE_BYTES = 4 * 2**20
"""Chunk size of file transfers in bytes; with chunks, a large checkpoint of one trial does not block others."""

_TOKEN_FILE = ".token"
_PREFIX = "rlrun-trial-"
_LOCK_FILE = ".lock"


class TrialPlace:
    """Working directory of one trial, inside a run's directory to which the trial's process has direct access.

    Attributes:
        directory: The trial's directory on the machine that runs the trial.
        is_copied: Whether `push` copies files to another machine; the trial must not write to them during a push.
    """

    is_copied = False

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def push(self) -> None:
        """Copies the trial's new files to the driver's machine; does nothing if the trial already writes there."""

    def write_progress(self, text: str) -> None:
        """Writes a progress message into the run's directory, for the driver."""
        write_file(self.directory / PROGRESS_FILE, text.encode())

    def fetch(self, checkpoint: Path) -> Path:
        """Returns the local path of a checkpoint, copying the checkpoint to this machine if necessary.

        Args:
            checkpoint: Path of the checkpoint on the driver's machine.
        """
        return checkpoint

    def with_driver_paths(self, text: str) -> str:
        """Replaces this machine's paths in a message with the corresponding paths on the driver's machine."""
        return text

    def close(self) -> None:
        """Releases the trial and its working directory; changes since the last push are lost."""


def leave_token(run: Path) -> str:
    """Writes a random token into a run's directory, which other processes read to check their access to the directory.

    Returns:
        The token.
    """
    token = secrets.token_hex(16)
    write_file(run / _TOKEN_FILE, token.encode())
    return token


def sees(run: Path, token: str) -> bool:
    """Whether this process has access to a run's directory, verified by the token in the directory."""
    try:
        return (run / _TOKEN_FILE).read_text() == token
    except OSError:
        return False


def open_trial_place(run: Path, trial: str, token: str, disk: str) -> TrialPlace:
    """Opens the working directory of a trial: local if the run's directory is accessible, else a mirror.

    Args:
        run: Path of the run's directory on the driver's machine.
        trial: The trial's name.
        token: The token that `leave_token` wrote into the run's directory.
        disk: Name of the `DriverFiles` actor; "" if there is none.

    Raises:
        UsageError: If this process has no access to the run's directory and there is no actor.
    """
    remote = RemoteFiles(disk) if disk else None
    scratch = os.environ.get(SCRATCH_VARIABLE)
    if sees(run, token) and not (scratch and remote):
        return TrialPlace(run / trial)
    if remote is None:
        raise UsageError(
            f"{socket.gethostname()} cannot access the run's directory {run}: pass the cluster with "
            "--address, or put the runs on a shared file system"
        )
    return TrialMirror(remote, run, trial, Path(scratch or tempfile.gettempdir()))


class TrialMirror(TrialPlace):
    """Local copy of a trial's directory on a machine that does not share the driver's file system.

    Inside the mirror's root folder, each file has the same absolute path as on the driver's disk.

    Args:
        disk: Client that reads and writes the run's files on the driver's machine.
        run: Path of the run's directory on the driver's machine.
        trial: The trial's name.
        scratch: Folder on this machine in which the mirror is created.
    """

    is_copied = True

    def __init__(self, disk: RunFiles, run: Path, trial: str, scratch: Path) -> None:
        _remove_abandoned(scratch)
        self._disk = disk
        self._run = run.absolute()
        self._trial = trial
        self._root, self._lock = _new_root(scratch)
        super().__init__(self._here(self._run / trial))
        self._fetched: Path | None = None
        self._appended: dict[str, int] = {}
        self._sent: dict[str, Item] = {}
        self._claim = ""
        try:
            self._claim = _claimed(disk, trial)
            self._pull()
        except BaseException:
            self.close()
            raise

    @override
    def push(self) -> None:
        """Copies the trial's changes since the last push into the run's directory on the driver's machine.

        Result rows are sent before the checkpoint that follows them, checkpoints before the trial's record that names
        them, and removals last. A kill at any time thus leaves the same state as killing a local trial would.

        Raises:
            OutOfResources: If the driver's disk is full.
            TrainingFailed: If the driver has died, or the trial was restarted elsewhere.
        """
        now = items_of(self.directory)
        changed = [name for name, item in now.items() if self._sent.get(name) != item]
        removed = [name for name in self._sent if name not in now]
        if not changed and not removed:
            return
        changed.sort(key=lambda name: (name == TRIAL_FILE, now[name].is_checkpoint))
        batch: list[Operation] = []
        size = 0
        for operation in self._operations(changed, removed, now):
            batch.append(operation)
            size += len(operation.data)
            if size >= PIECE_BYTES:
                self._disk.apply(self._trial, self._claim, batch)
                batch, size = [], 0
        self._disk.apply(self._trial, self._claim, batch)
        self._sent = now

    @override
    def write_progress(self, text: str) -> None:
        with suppress(RlrunError):  # the next push reports the error
            self._disk.apply(self._trial, self._claim, [Operation("replace", PROGRESS_FILE, text.encode())])

    @override
    def fetch(self, checkpoint: Path) -> Path:
        """Copies a checkpoint from the driver's disk to this machine.

        A checkpoint that was fetched earlier from another trial's directory is removed.

        Args:
            checkpoint: Path of the checkpoint on the driver's machine.

        Returns:
            Local path. If the driver has removed the checkpoint, nothing is at the path, and loading raises an error.
        """
        here, there = self._here(checkpoint), self._there(checkpoint)
        files = self._disk.checkpoint(there)
        if not files:
            return here
        manifest = here / MANIFEST_FILE
        is_here = all((here / name).is_file() for name, _ in files)
        if is_here and manifest.read_bytes() == self._disk.read(f"{there}/{MANIFEST_FILE}", 0, manifest.stat().st_size):
            return here
        if self._fetched is not None:
            shutil.rmtree(self._fetched)
        self._fetched = None if here.is_relative_to(self.directory) else here
        for name, size in files:
            self._read(checkpoint / name, size)
        return here

    @override
    def with_driver_paths(self, text: str) -> str:
        return text.replace(str(self._root), "")

    @override
    def close(self) -> None:
        for descriptor in self._appended.values():
            os.close(descriptor)
        self._appended = {}
        shutil.rmtree(self._root, ignore_errors=True)
        os.close(self._lock)
        self._disk.release(self._trial, self._claim)

    def _here(self, path: Path) -> Path:
        return self._root / str(path.absolute()).lstrip("/")

    def _there(self, path: Path) -> str:
        """Converts a driver's path for `RunFiles`: relative to the run's directory if inside."""
        return str(path.relative_to(self._run) if path.is_relative_to(self._run) else path.absolute())

    def _pull(self) -> None:
        self.directory.mkdir(parents=True)
        for name, size in self._disk.contents(self._trial):
            self._read(self._run / self._trial / name, size)
        self._sent = items_of(self.directory)
        self._fetch_beginning()

    def _read(self, path: Path, size: int) -> None:
        here = self._here(path)
        here.parent.mkdir(parents=True, exist_ok=True)
        with here.open("wb") as file:
            for offset in range(0, size, PIECE_BYTES):
                file.write(self._disk.read(self._there(path), offset, min(PIECE_BYTES, size - offset)))

    def _fetch_beginning(self) -> None:
        """Fetches the initial checkpoint from another run (warm start), unless the trial has a checkpoint."""
        record = self.directory / TRIAL_FILE
        data = json.loads(record.read_bytes()) if record.exists() else {}
        start = data.get("from_checkpoint")
        if start is not None and not any(name.startswith("checkpoints/") for name in self._sent):
            data["from_checkpoint"] = str(self.fetch(Path(start)))
            write_file(record, json.dumps(data).encode())

    def _operations(self, changed: list[str], removed: list[str], now: dict[str, Item]) -> Iterator[Operation]:
        for name in changed:
            with suppress(FileNotFoundError):  # a logger may have removed a temporary file
                if now[name].is_checkpoint:
                    yield Operation("sync", RESULT_FILE)
                    yield from self._copy(name, files_of_checkpoint(self.directory / name))
                elif _is_appended(name):
                    yield from self._append(name, now[name])
                elif now[name].size > PIECE_BYTES:
                    yield from self._copy(name, [""])
                else:
                    yield Operation("replace", name, self._for_driver(name, (self.directory / name).read_bytes()))
        for name in removed:
            if name in self._appended:
                os.close(self._appended.pop(name))
            yield Operation("remove", name)

    def _copy(self, name: str, files: list[str]) -> Iterator[Operation]:
        """Yields operations for an atomic copy of a file or directory: chunks under a temporary name, then a rename."""
        partial = str(partial_name(Path(name)))
        for file in files:
            inside = f"{partial}/{file}" if file else partial
            with (self.directory / name / file).open("rb") as source:
                yield Operation("part", inside, source.read(PIECE_BYTES))
                while piece := source.read(PIECE_BYTES):
                    yield Operation("part", inside, piece)
        yield Operation("commit", name, source=partial)

    def _append(self, name: str, item: Item) -> Iterator[Operation]:
        """Yields operations with the appended bytes of a growing file, or with all bytes of a new file.

        The inode number of an open file is not reused, so equal numbers identify one file.
        """
        before = self._sent.get(name)
        descriptor = self._appended.get(name)
        if descriptor is not None and before is not None and before.inode == item.inode and before.size <= item.size:
            offset = before.size
        else:
            if descriptor is not None:
                os.close(descriptor)
            descriptor = self._appended[name] = os.open(self.directory / name, os.O_RDONLY | os.O_CLOEXEC)
            offset = min(PIECE_BYTES, item.size)
            yield Operation("replace", name, os.pread(descriptor, offset, 0))
        while offset < item.size:
            piece = os.pread(descriptor, min(PIECE_BYTES, item.size - offset), offset)
            yield Operation("append", name, piece, offset)
            offset += len(piece)

    def _for_driver(self, name: str, data: bytes) -> bytes:
        """Content of a small file, with local paths replaced by the driver's paths."""
        if name not in (TRIAL_FILE, ERROR_FILE):
            return data
        return with_new_digest(data.replace(str(self._root).encode(), b""))


def _is_appended(name: str) -> bool:
    return name in (RESULT_FILE, CSV_FILE) or name.startswith("events.")


def _claimed(disk: RunFiles, trial: str) -> str:
    """Claims a trial; revokes another process's claim after `CLAIM_TIMEOUT_S`."""
    deadline = time.monotonic() + CLAIM_TIMEOUT_S
    while True:
        claim = disk.claim(trial, by_force=time.monotonic() >= deadline)
        if claim is not None:
            return claim
        time.sleep(0.1)


def _new_root(scratch: Path) -> tuple[Path, int]:
    """Creates a trial's scratch folder, locked during the lifetime of this process.

    Returns:
        The folder, and the file descriptor of the lock.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    unlocked = Path(tempfile.mkdtemp(prefix=".rlrun-", dir=scratch.resolve()))
    (unlocked / _LOCK_FILE).touch()
    lock = _lock(unlocked)
    return unlocked.rename(unlocked.with_name(f"{_PREFIX}{secrets.token_hex(4)}")), lock


def _remove_abandoned(scratch: Path) -> None:
    """Removes scratch folders of killed trial processes on this machine."""
    for folder in scratch.glob(f"{_PREFIX}*"):
        try:
            os.close(_lock(folder))
        except OSError:  # the folder's process is alive, or another user owns the folder
            continue
        shutil.rmtree(folder, ignore_errors=True)


def _lock(folder: Path) -> int:
    lock = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock
