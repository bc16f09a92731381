"""Where a trial's process writes: into the run's directory if it sees it, else beside it and in step with it.

On one machine, and where the run's directory lies on a file system that all machines share, trials write where their
files belong. On another machine a trial works in a folder of its own (`TrialMirror`), which is filled with what the
trial needs to go on and followed by the run's directory after each step: the run's directory on the driver's disk is
the whole truth, wherever trials run.
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
from typing import Protocol

from rlrun.checkpoint.durable import partial_name, write_file
from rlrun.checkpoint.manifest import MANIFEST_FILE
from rlrun.checkpoint.own_digest import with_new_digest
from rlrun.cluster.driver_files import Operation, RemoteFiles, RunFiles
from rlrun.errors import UsageError
from rlrun.runs.file_items import Item, files_of_checkpoint, items_of
from rlrun.trial.results import CSV_FILE, RESULT_FILE
from rlrun.trial.trial_directory import CLAIM_TIMEOUT_S, ERROR_FILE, TRIAL_FILE

SCRATCH_VARIABLE = "RLRUN_SCRATCH"
"""Names a folder on a node in which trials there work, also those that see the run's directory (but slowly)."""

PIECE_BYTES = 4 * 2**20
"""Files travel in pieces of this size, so that a large checkpoint of one trial does not keep others waiting."""

_TOKEN_FILE = ".token"
_PREFIX = "rlrun-trial-"
_LOCK_FILE = ".lock"


class TrialPlace(Protocol):
    """Where one trial is run."""

    directory: Path
    """The trial's directory for the process that runs it."""

    is_copied: bool
    """Whether `push` copies files; the trial may not write any meanwhile."""

    def push(self) -> None:
        """Brings the run's directory in step with what the trial has written."""
        ...

    def fetch(self, checkpoint: Path) -> Path:
        """Returns where this process finds a checkpoint that the driver names."""
        ...

    def told(self, text: str) -> str:
        """Returns a text with paths as the driver knows them."""
        ...

    def close(self) -> None:
        """Lets go of the place; what was not pushed is lost."""
        ...


def leave_token(run: Path) -> str:
    """Leaves a random text in a run's directory, by which a process anywhere can tell whether it sees the directory.

    Returns:
        The text.
    """
    token = secrets.token_hex(16)
    write_file(run / _TOKEN_FILE, token.encode())
    return token


def sees(run: Path, token: str) -> bool:
    """Whether this process sees a run's directory, and not another one that has the same path here."""
    try:
        return (run / _TOKEN_FILE).read_text() == token
    except OSError:
        return False


def open_place(run: Path, trial: str, token: str, disk: str) -> TrialPlace:
    """Returns where this process is to run a trial.

    Args:
        run: The run's directory, as the driver knows it.
        trial: The trial's name.
        token: What `leave_token` left there.
        disk: Name of the driver's disk (see `start_driver_files`); "" if there is none.

    Raises:
        UsageError: If this process does not see the run's directory and there is no other way to it.
    """
    remote = RemoteFiles(disk) if disk else None
    scratch = os.environ.get(SCRATCH_VARIABLE)
    if sees(run, token) and not (scratch and remote):
        return SharedPlace(run / trial)
    if remote is None:
        raise UsageError(
            f"{socket.gethostname()} does not see the run's directory {run}: name the cluster with --address, or put "
            "the runs on a file system that all machines share"
        )
    return TrialMirror(remote, run, trial, Path(scratch or tempfile.gettempdir()))


class SharedPlace:
    """The trial's own directory inside the run's: nothing has to be brought anywhere.

    Attributes:
        directory: The trial's directory.
        is_copied: False.
    """

    is_copied = False

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def push(self) -> None:
        """Does nothing."""

    def fetch(self, checkpoint: Path) -> Path:
        """Returns the checkpoint's own path."""
        return checkpoint

    def told(self, text: str) -> str:
        """Returns the text."""
        return text

    def close(self) -> None:
        """Does nothing."""


class TrialMirror:
    """A trial's directory on a machine that does not see the run's.

    Its root folder holds what it knows of the driver's disk, each file under the same absolute path. So a path here is
    one there once the root is taken off.

    Attributes:
        directory: The trial's directory here.
        is_copied: True.
    """

    is_copied = True

    def __init__(self, disk: RunFiles, run: Path, trial: str, scratch: Path) -> None:
        """Claims the trial, and fetches what it needs to go on.

        Args:
            disk: The driver's disk.
            run: The run's directory there.
            trial: The trial's name.
            scratch: The folder on this machine in which to work.
        """
        _remove_abandoned(scratch)
        self._disk = disk
        self._run = run.absolute()
        self._trial = trial
        self._root, self._lock = _new_root(scratch)
        self.directory = self._here(self._run / trial)
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

    def push(self) -> None:
        """Brings the run's directory in step; cheap where nothing has changed.

        Rows go before the checkpoint that relies on them, checkpoints before the record that speaks of them, and what
        the trial has removed goes last. So a kill at any moment leaves there what a kill of the trial would have left.

        Raises:
            OutOfResources: If the driver's disk is full.
            TrainingFailed: If the driver is gone, or has started the trial anew elsewhere.
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

    def fetch(self, checkpoint: Path) -> Path:
        """Brings a checkpoint from the driver's disk here; that of another trial which was fetched before goes.

        Args:
            checkpoint: Its path there.

        Returns:
            Its path here. If it is not there any more, neither is it here, as whoever reads it will say.
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

    def told(self, text: str) -> str:
        """Returns a text with paths as they are on the driver's disk."""
        return text.replace(str(self._root), "")

    def close(self) -> None:
        """Lets others claim the trial, and removes the folder."""
        for descriptor in self._appended.values():
            os.close(descriptor)
        self._appended = {}
        shutil.rmtree(self._root, ignore_errors=True)
        os.close(self._lock)
        self._disk.release(self._trial, self._claim)

    def _here(self, path: Path) -> Path:
        return self._root / str(path.absolute()).lstrip("/")

    def _there(self, path: Path) -> str:
        """Returns a path on the driver's disk as the driver's disk takes it."""
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
        """Fetches the checkpoint of another run that the trial begins from, if it begins again."""
        record = self.directory / TRIAL_FILE
        data = json.loads(record.read_bytes()) if record.exists() else {}
        start = data.get("from_checkpoint")
        if start is not None and not any(name.startswith("checkpoints/") for name in self._sent):
            data["from_checkpoint"] = str(self.fetch(Path(start)))
            write_file(record, json.dumps(data).encode())

    def _operations(self, changed: list[str], removed: list[str], now: dict[str, Item]) -> Iterator[Operation]:
        for name in changed:
            with suppress(FileNotFoundError):  # a logger's own file that came and went
                if now[name].is_checkpoint:
                    yield Operation("sync", RESULT_FILE)
                    yield from self._copy(name, files_of_checkpoint(self.directory / name))
                elif _is_appended(name):
                    yield from self._append(name, now[name])
                elif now[name].size > PIECE_BYTES:
                    yield from self._copy(name, [""])
                else:
                    yield Operation("replace", name, self._words(name, (self.directory / name).read_bytes()))
        for name in removed:
            if name in self._appended:
                os.close(self._appended.pop(name))
            yield Operation("remove", name)

    def _copy(self, name: str, files: list[str]) -> Iterator[Operation]:
        """Sends a file or a directory of files beside its place, and then has it put there."""
        partial = str(partial_name(Path(name)))
        for file in files:
            inside = f"{partial}/{file}" if file else partial
            with (self.directory / name / file).open("rb") as source:
                yield Operation("part", inside, source.read(PIECE_BYTES))
                while piece := source.read(PIECE_BYTES):
                    yield Operation("part", inside, piece)
        yield Operation("commit", name, source=partial)

    def _append(self, name: str, item: Item) -> Iterator[Operation]:
        """Sends what was added to a file that grows, or all of it if another file stands there now.

        A file that is held open keeps its number for itself, so one with the same number is the same file.
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

    def _words(self, name: str, data: bytes) -> bytes:
        """Returns a small file as the driver is to read it: where it speaks of paths, they are the driver's."""
        if name not in (TRIAL_FILE, ERROR_FILE):
            return data
        return with_new_digest(data.replace(str(self._root).encode(), b""))


def _is_appended(name: str) -> bool:
    return name in (RESULT_FILE, CSV_FILE) or name.startswith("events.")


def _claimed(disk: RunFiles, trial: str) -> str:
    """Claims a trial; a process that has it still may be about to let go of it."""
    deadline = time.monotonic() + CLAIM_TIMEOUT_S
    while True:
        claim = disk.claim(trial, by_force=time.monotonic() >= deadline)
        if claim is not None:
            return claim
        time.sleep(0.1)


def _new_root(scratch: Path) -> tuple[Path, int]:
    """Makes a trial's folder, locked for as long as this process lives.

    Returns:
        The folder, and the lock's descriptor.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    unlocked = Path(tempfile.mkdtemp(prefix=".rlrun-", dir=scratch.resolve()))
    (unlocked / _LOCK_FILE).touch()
    lock = _lock(unlocked)
    return unlocked.rename(unlocked.with_name(f"{_PREFIX}{secrets.token_hex(4)}")), lock


def _remove_abandoned(scratch: Path) -> None:
    """Removes the folders of trials whose processes were killed on this machine."""
    for folder in scratch.glob(f"{_PREFIX}*"):
        try:
            os.close(_lock(folder))
        except OSError:  # its process lives, or it is somebody else's
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
