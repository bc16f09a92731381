"""Uploads a copy of a run's directory to a storage that outlives this machine: `storage: s3://bucket/runs`.

The run's directory on the driver is the whole truth of a run, wherever its trials run. Its copy is brought in step
every few seconds, by the driver alone: other machines need neither the storage's packages nor its keys. The copy never
holds half of something: a checkpoint without its manifest, which is copied last, is none, and what speaks of other
files is read before them and copied after them. ``rlrun resume s3://bucket/runs/NAME`` goes on from it on any machine.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self

from rlrun.checkpoint.durable import partial_name
from rlrun.checkpoint.manifest import MANIFEST_FILE
from rlrun.errors import RlrunError, UsageError
from rlrun.runs.file_items import Item, files_of_checkpoint, item_of, items_of
from rlrun.runs.run_directory import RUN_FILE, RunDirectory
from rlrun.trial.trial_directory import TRIAL_FILE

COPY_EVERY_S = 10.0
"""Seconds between two looks at what has changed, at least."""

SHARE = 0.05
"""Looks and copies take this share of the time at most, as there may be thousands of trials or a slow storage."""

PIECE_BYTES = 8 * 2**20
"""Files are read and written in pieces of this size."""

_log = logging.getLogger(__name__)


class RunUpload:
    """Keeps a copy of a run's directory in step while it is entered, and completes it at the end.

    Attributes:
        uri: Where the copy is.
    """

    def __init__(self, run: Path, uri: str) -> None:
        """Looks at what of the run is there already.

        Args:
            run: The run's directory.
            uri: The copy's own path or URI.

        Raises:
            UsageError: If there is no such storage, or it cannot be reached.
        """
        self.uri = uri
        self._run = run
        self._files, self._root = _file_system(uri)
        self._copied: dict[str, Item | None] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="rlrun-copy", daemon=True)
        try:
            self._copied = self._there()
        except (OSError, ValueError) as error:
            raise UsageError(f"storage {uri}: cannot be reached: {error}") from error

    def bring_in_step(self) -> None:
        """Copies what is new or changed, and removes what is gone.

        Raises:
            OSError: If the storage cannot be reached or is full; what is missing is copied the next time.
        """
        sooner = self._read_what_speaks_of_others()
        now = items_of(self._run)
        for name, item in now.items():  # trials write meanwhile: rows are read after the checkpoints were listed
            if not (item.is_checkpoint or _speaks_of_others(name)):
                self._copy_file(name, item)
        for name, item in now.items():
            if item.is_checkpoint:
                self._copy_checkpoint(name, item)
        for name in sorted(sooner, key=lambda name: name == RUN_FILE):
            item, data = sooner[name]
            self._put(name, [data])
            self._copied[name] = item
        for name in [name for name in self._copied if name not in now]:
            self._remove(name)

    def __enter__(self) -> Self:
        """Copies what there is, so that a storage which takes nothing is noticed before anything runs.

        Raises:
            UsageError: If the storage takes nothing.
        """
        try:
            self.bring_in_step()
        except (OSError, ValueError) as error:
            raise UsageError(f"storage {self.uri}: cannot be written: {error}") from error
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Completes the copy, unless the user wants everything to end at once.

        Raises:
            RlrunError: If that fails and nothing else has.
        """
        self._over.set()
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            return
        self._thread.join()
        try:
            self.bring_in_step()
        except (OSError, ValueError) as failure:
            if error is not None:
                _log.warning("storage %s: %s", self.uri, failure)
                return
            raise RlrunError(
                f"the run is whole in {self._run}, but its copy {self.uri} is not in step: {failure}; "
                f"rlrun resume {self._run} tries again"
            ) from failure

    def _follow(self) -> None:
        pause_s = COPY_EVERY_S
        while not self._over.wait(pause_s):
            began = time.monotonic()
            try:
                self.bring_in_step()
            except (OSError, ValueError) as error:  # tried again in a while, and at the end for good
                _log.warning("storage %s: %s", self.uri, error)
            pause_s = max(COPY_EVERY_S, (time.monotonic() - began) / SHARE)

    def _read_what_speaks_of_others(self) -> dict[str, tuple[Item, bytes]]:
        """Reads run.json and each trial.json that has changed."""
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
        self._copied[name] = None  # something of it is there from now on
        with suppress(FileNotFoundError):  # the trial has just removed it
            for file in files_of_checkpoint(self._run / name):
                self._put(f"{name}/{file}", _pieces(self._run / name / file))
            self._copied[name] = item

    def _put(self, name: str, pieces: Iterator[bytes] | Sequence[bytes]) -> None:
        """Writes a file, whole or not at all: object stores do so by themselves, elsewhere it is renamed."""
        path = f"{self._root}/{name}"
        renames = self._files.type_name in ("local", "hdfs")
        target = str(partial_name(Path(path))) if renames else path
        if renames:
            self._files.create_dir(os.path.dirname(path), recursive=True)
        with self._files.open_output_stream(target) as stream:
            for piece in pieces:
                stream.write(piece)
        if renames:
            self._files.move(target, path)

    def _remove(self, name: str) -> None:
        path = f"{self._root}/{name}"
        kind = self._files.get_file_info(path).type.name
        if kind == "Directory":
            with suppress(FileNotFoundError):
                self._files.delete_file(f"{path}/{MANIFEST_FILE}")  # without it, what is left is no checkpoint
            self._files.delete_dir(path)
        elif kind == "File":
            self._files.delete_file(path)
        del self._copied[name]

    def _there(self) -> dict[str, Item | None]:
        """Returns what of an earlier copy is there: checkpoints that are the same, and None for everything else."""
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
        # What is not here any more goes file by file, the manifests of checkpoints first.
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
def copied(directory: RunDirectory) -> Iterator[None]:
    """Keeps the copy of a run in step, if it has one; a run that was resumed in its copy's place has none.

    Args:
        directory: The run's directory.

    Raises:
        UsageError: If the copy cannot be written at the beginning.
        RlrunError: If it is not in step at the end.
    """
    uri = directory.table.copy
    if uri is None or _is_here(uri, directory.path):
        yield
        return
    with RunUpload(directory.path, uri):
        yield


def _is_here(uri: str, run: Path) -> bool:
    files, root = _file_system(uri)
    return files.type_name == "local" and Path(root).resolve() == run.resolve()


def place_of_copy(storage: str, name: str) -> str:
    """Returns the URI of a run's copy in a storage.

    Args:
        storage: The storage's path or URI.
        name: Name of the run's directory.

    Examples:
        >>> place_of_copy("s3://bucket/runs?region=eu-central-1", "cartpole-ppo")
        's3://bucket/runs/cartpole-ppo?region=eu-central-1'
    """
    if "://" not in storage:
        return os.path.join(os.path.abspath(storage), name)
    place, question_mark, options = storage.partition("?")
    return f"{place.removesuffix('/')}/{name}{question_mark}{options}"


def is_taken(uri: str) -> bool:
    """Whether something is in the place of a copy.

    Raises:
        UsageError: If there is no such storage, or it cannot be reached.
    """
    files, root = _file_system(uri)
    try:
        return bool(files.get_file_info(root).type.name != "NotFound")
    except OSError as error:
        raise UsageError(f"storage {uri}: cannot be reached: {error}") from error


def fetch_run(uri: str, runs_dir: Path) -> Path:
    """Brings a run back from its copy, so that it can be resumed, evaluated and reported here.

    Args:
        uri: The copy's path or URI.
        runs_dir: The folder of runs that it goes into, under its own name.

    Returns:
        The run's directory.

    Raises:
        UsageError: If there is no copy of a run, or the folder has a run of that name.
    """
    files, root = _file_system(uri)
    run = runs_dir.absolute() / PurePosixPath(root).name
    if run.exists():
        raise UsageError(f"{run} is there already; to go on with it: rlrun resume {run}")
    try:
        names = _names(files, root)
        if RUN_FILE not in names:
            raise UsageError(f"{uri}: there is no copy of a run: no {RUN_FILE}")
        run.parent.mkdir(parents=True, exist_ok=True)
        partial = partial_name(run)
        for name in sorted(name for name in names if _is_whole(name, names)):
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            with files.open_input_stream(f"{root}/{name}") as stream, (partial / name).open("wb") as file:
                while piece := stream.read(PIECE_BYTES):
                    file.write(piece)
    except OSError as error:
        raise UsageError(f"storage {uri}: cannot be read: {error}") from error
    partial.rename(run)
    return run


def _file_system(uri: str) -> tuple[Any, str]:
    """Returns the file system of a path or URI, and the path on it.

    Raises:
        UsageError: If there is none.
    """
    from pyarrow.fs import FileSystem

    try:
        files, path = FileSystem.from_uri(uri if "://" in uri else os.path.abspath(uri))
    except (OSError, ValueError) as error:
        raise UsageError(f"storage {uri}: {error}") from error
    return files, str(path).rstrip("/")


def _names(files: Any, root: str) -> set[str]:
    """Returns the files below a path by their paths from there."""
    from pyarrow.fs import FileSelector

    found = files.get_file_info(FileSelector(root, allow_not_found=True, recursive=True))
    return {info.path.removeprefix(f"{root}/") for info in found if info.type.name == "File"}


def _is_whole(name: str, names: set[str]) -> bool:
    """Whether a file of a copy is neither an interrupted write nor part of a checkpoint without a manifest."""
    folders = [PurePosixPath(name), *PurePosixPath(name).parents]
    checkpoint = next((folder for folder in folders if folder.parent.name == "checkpoints"), None)
    is_written = not PurePosixPath(name).name.startswith(".")
    return is_written and (checkpoint is None or f"{checkpoint}/{MANIFEST_FILE}" in names)


def _speaks_of_others(name: str) -> bool:
    """Tells a run's run.json and its trials' trial.json, which must not be newer than what they speak of."""
    return name == RUN_FILE or (name.count("/") == 1 and name.endswith(f"/{TRIAL_FILE}"))


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
