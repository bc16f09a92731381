"""Upload of a run's directory to remote storage that outlives this machine, set by `storage: s3://bucket/runs`.

The run's directory on the driver contains all files of the run, no matter where its trials run. Only the driver updates
the copy, every few seconds, so other machines need neither packages nor keys for the storage. The copy is always
consistent: a checkpoint's manifest is copied after its other files, and a file that refers to other files is read
before those files and copied after them. ``rlrun resume s3://bucket/runs/NAME`` resumes from the copy on any machine.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self

from rlrun.engine.checkpoint.durable import partial_name
from rlrun.engine.checkpoint.file_systems import PIECE_BYTES, file_system, is_uri, read_chunks, write_chunks
from rlrun.engine.checkpoint.manifest import MANIFEST_FILE
from rlrun.engine.messages.errors import RlrunError, RunTakenOver, UsageError
from rlrun.experiments.runs.copy_owner import OWNERS, CopyOwner, end_without_copy
from rlrun.experiments.runs.file_items import Item, files_of_checkpoint, item_of, items_of
from rlrun.experiments.runs.run_directory import RUN_FILE, RunDirectory
from rlrun.experiments.trial.trial_directory import TRIAL_FILE

COPY_EVERY_S = 10.0
"""Minimum time between two updates of the copy, in seconds."""

SHARE = 0.05
"""Maximum fraction of the time spent on updates, which are slow for thousands of trials or a slow storage."""

_log = logging.getLogger(__name__)


class RunUpload:
    """Context manager that copies a run's directory to remote storage periodically, and completely at the end.

    Attributes:
        uri: Path or URI of the copy.
    """

    def __init__(self, run: Path, uri: str, confirm: Callable[[], object] = lambda: None) -> None:
        """Compares the run's files with the copy, to find files that are already there.

        Args:
            run: The run's directory.
            uri: The copy's path or URI.
            confirm: Called before each change of the copy; it raises an error if this process does not own the copy.

        Raises:
            UsageError: There is no such storage, or it cannot be reached.
        """
        self.uri = uri
        self._run = run
        self._confirm = confirm
        self._files, self._root = file_system(uri)
        self._copied: dict[str, Item | None] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="rlrun-copy", daemon=True)
        try:
            self._copied = self._there()
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot reach storage {uri}: {error}") from error

    def synchronize(self) -> None:
        """Updates the copy in remote storage: uploads new or changed files, and deletes removed ones.

        Raises:
            OSError: The storage cannot be reached or is full; the next update copies the remaining files.
        """
        referring = self._read_referring_files()
        now = items_of(self._run)
        for name, item in now.items():  # rows are read after checkpoints are listed, since trials keep writing
            if not (item.is_checkpoint or _refers_to_others(name)):
                self._copy_file(name, item)
        for name, item in now.items():
            if item.is_checkpoint:
                self._copy_checkpoint(name, item)
        for name in sorted(referring, key=lambda name: name == RUN_FILE):
            item, data = referring[name]
            self._put(name, [data])
            self._copied[name] = item
        for name in [name for name in self._copied if name not in now]:
            self._remove(name)

    def __enter__(self) -> Self:
        """Makes a first update of the copy, so that an unusable storage is noticed before any trial starts.

        Raises:
            UsageError: The storage cannot be written.
        """
        try:
            self.synchronize()
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot write to storage {self.uri}: {error}") from error
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Completes the copy, except after a KeyboardInterrupt.

        Raises:
            RlrunError: Completing the copy fails, and there was no other exception.
        """
        self._over.set()
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            return
        self._thread.join()
        try:
            self.synchronize()
        except (OSError, ValueError) as failure:
            if error is not None:
                _log.warning("storage %s: %s", self.uri, failure)
                return
            raise RlrunError(
                f"the run is complete in {self._run}, but its copy {self.uri} is not up to date: {failure}; "
                f"to try again: rlrun resume {self._run}"
            ) from failure

    def _follow(self) -> None:
        pause_s = COPY_EVERY_S
        while not self._over.wait(pause_s):
            began = time.monotonic()
            try:
                self.synchronize()
            except (OSError, ValueError) as error:  # the copy is retried later, and at the end of the run
                _log.warning("storage %s: %s", self.uri, error)
            pause_s = max(COPY_EVERY_S, (time.monotonic() - began) / SHARE)

    def _read_referring_files(self) -> dict[str, tuple[Item, bytes]]:
        """Loads the files that refer to others: run.json, and each trial.json that has changed."""
        found = {}
        for name in [RUN_FILE, *(f"{folder.name}/{TRIAL_FILE}" for folder in self._run.iterdir())]:
            with suppress(FileNotFoundError, NotADirectoryError):
                item = item_of(self._run / name)
                if self._copied.get(name) != item:
                    found[name] = (item, (self._run / name).read_bytes())
        return found

    def _copy_file(self, name: str, item: Item) -> None:
        if self._copied.get(name) == item:
            return
        with suppress(FileNotFoundError):
            self._put(name, _pieces(self._run / name))
            self._copied[name] = item

    def _copy_checkpoint(self, name: str, item: Item) -> None:
        if self._copied.get(name) == item:
            return
        if name in self._copied:
            self._remove(name)
        self._copied[name] = None  # from now on, the storage may hold part of the checkpoint
        with suppress(FileNotFoundError):  # the trial has just removed it
            for file in files_of_checkpoint(self._run / name):
                self._put(f"{name}/{file}", _pieces(self._run / name / file))
            self._copied[name] = item

    def _put(self, name: str, pieces: Iterator[bytes] | Sequence[bytes]) -> None:
        """Writes a file of the copy atomically, unless another process has taken it over."""
        write_chunks(self._files, f"{self._root}/{name}", pieces, self._confirm)

    def _remove(self, name: str) -> None:
        self._confirm()
        path = f"{self._root}/{name}"
        kind = self._files.get_file_info(path).type.name
        if kind == "Directory":
            with suppress(FileNotFoundError):
                self._files.delete_file(f"{path}/{MANIFEST_FILE}")  # without it, the rest is not a checkpoint
            self._files.delete_dir(path)
        elif kind == "File":
            self._files.delete_file(path)
        del self._copied[name]

    def _there(self) -> dict[str, Item | None]:
        """Content of an existing copy: items of checkpoints that are identical, and None for all other files."""
        there = _names(self._files, self._root)
        inside: dict[str, set[str]] = {}
        for file in there:
            for folder in PurePosixPath(file).parents:
                inside.setdefault(str(folder), set()).add(file)
        found: dict[str, Item | None] = {}
        for name, item in items_of(self._run).items():
            if item.is_checkpoint and name in inside:
                found[name] = item if self._is_same(name) else None
                there -= inside[name]
        # Files that no longer exist here are deleted one by one, the manifests of checkpoints first.
        found.update(dict.fromkeys(sorted(there, key=lambda name: PurePosixPath(name).name != MANIFEST_FILE)))
        return found

    def _is_same(self, checkpoint: str) -> bool:
        try:
            with self._files.open_input_file(f"{self._root}/{checkpoint}/{MANIFEST_FILE}") as stream:
                data: bytes = stream.read()
            return data == (self._run / checkpoint / MANIFEST_FILE).read_bytes()
        except FileNotFoundError:
            return False


@contextmanager
def owned(
    directory: RunDirectory, lost: Callable[[RunTakenOver], object] = end_without_copy
) -> Iterator[CopyOwner | None]:
    """Context manager in which this process owns a run's copy in remote storage; yields None if there is no copy.

    Args:
        directory: The run's directory.
        lost: Called in another thread when another process has taken over the copy.

    Raises:
        UsageError: Another process owns the copy, or the copy is newer than the directory or cannot be written.
    """
    if directory.table.copy is None:
        yield None
        return
    with CopyOwner(directory.table.copy, directory.path, lost) as owner:
        yield owner


@contextmanager
def copied(directory: RunDirectory, owner: CopyOwner | None) -> Iterator[None]:
    """Context manager that keeps a run's copy in remote storage up to date; does nothing for runs without a copy.

    Args:
        directory: The run's directory.
        owner: This process's ownership of the copy; None for runs without a copy.

    Raises:
        UsageError: The copy cannot be written at the beginning.
        RlrunError: The copy is not complete at the end.
    """
    if owner is None or owner.is_in_place:
        yield
        return
    with RunUpload(directory.path, owner.uri, owner.confirm):
        yield


def copy_location(storage: str, name: str) -> str:
    """Path or URI of a run's copy in remote storage.

    Args:
        storage: The storage's path or URI.
        name: Name of the run's directory.

    Examples:
        >>> copy_location("s3://bucket/runs?region=eu-central-1", "cartpole-ppo")
        's3://bucket/runs/cartpole-ppo?region=eu-central-1'
    """
    if not is_uri(storage):
        return os.path.join(os.path.abspath(storage), name)
    place, question_mark, options = storage.partition("?")
    return f"{place.removesuffix('/')}/{name}{question_mark}{options}"


def is_taken(uri: str) -> bool:
    """Whether a run's copy already exists at a path or URI.

    Raises:
        UsageError: There is no such storage, or it cannot be reached.
    """
    files, root = file_system(uri)
    try:
        return bool(files.get_file_info(root).type.name != "NotFound")
    except OSError as error:
        raise UsageError(f"cannot reach storage {uri}: {error}") from error


def fetch_run(uri: str, runs_dir: Path) -> Path:
    """Downloads a run from its copy in remote storage, to resume the run on this machine.

    During the download this process owns the copy.

    Args:
        uri: The copy's path or URI.
        runs_dir: The folder to download into; the run keeps its name.

    Returns:
        The run's directory.

    Raises:
        UsageError: There is no copy of a run at the URI, another process owns it, or the folder already has a run of
            that name.
    """
    files, root = file_system(uri)
    run = runs_dir.absolute() / PurePosixPath(root).name
    if run.exists():
        raise UsageError(f"{run} already exists; to continue it: rlrun resume {run}")
    try:
        if RUN_FILE not in _names(files, root):
            raise UsageError(f"{uri}: not a copy of a run, because it has no {RUN_FILE}")
        run.parent.mkdir(parents=True, exist_ok=True)
        partial = partial_name(run)
        with CopyOwner(uri, None) as owner:
            names = _names(files, root)
            for name in sorted(name for name in names if _is_whole(name, names)):
                (partial / name).parent.mkdir(parents=True, exist_ok=True)
                with (partial / name).open("wb") as file:
                    file.writelines(read_chunks(files, f"{root}/{name}"))
            owner.confirm()
            owner.note_content(partial)
    except OSError as error:
        raise UsageError(f"cannot read storage {uri}: {error}") from error
    partial.rename(run)
    return run


def _names(files: Any, root: str) -> set[str]:
    """Lists the files of a copy by relative path, without the records of its owners."""
    from pyarrow.fs import FileSelector

    found = files.get_file_info(FileSelector(root, allow_not_found=True, recursive=True))
    names = {info.path.removeprefix(f"{root}/") for info in found if info.type.name == "File"}
    return {name for name in names if not name.startswith(f"{OWNERS}/")}


def _is_whole(name: str, names: set[str]) -> bool:
    """Whether a file of a copy is complete: neither a partial write nor part of a checkpoint without a manifest."""
    folders = [PurePosixPath(name), *PurePosixPath(name).parents]
    checkpoint = next((folder for folder in folders if folder.parent.name == "checkpoints"), None)
    is_written = not PurePosixPath(name).name.startswith(".")
    return is_written and (checkpoint is None or f"{checkpoint}/{MANIFEST_FILE}" in names)


def _refers_to_others(name: str) -> bool:
    """Whether a file is run.json or a trial.json, which must be uploaded after the files that they refer to."""
    return name == RUN_FILE or (name.count("/") == 1 and name.endswith(f"/{TRIAL_FILE}"))


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
