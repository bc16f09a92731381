"""The driver's disk, for trials on machines that do not see the run's directory.

A small actor without CPUs, on the driver's own node, writes into the run's directory what such trials send, and reads
to them what they need to go on. What a trial sends is a list of operations, carried out in order; a checkpoint is
collected beside its place and renamed, so it is there whole or not at all, as if the trial had written it itself.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rlrun.checkpoint.durable import (
    explained_full_disk,
    put_directory,
    remove_directory,
    remove_leftovers,
    sync,
    write_file,
)
from rlrun.checkpoint.format import verify_checkpoint
from rlrun.checkpoint.manifest import MANIFEST_FILE
from rlrun.checkpoint.store import CheckpointStore
from rlrun.errors import CheckpointError, RlrunError, TrainingFailed, UsageError
from rlrun.runs.file_items import files_of_checkpoint, items_of
from rlrun.trial.trial_directory import TrialDirectory


@dataclass(frozen=True)
class Operation:
    """One thing to do in a trial's directory.

    Attributes:
        kind: "replace" a file by `data`; "append" `data` to a file of which `offset` bytes are there; "part" adds
            `data` to a file in an unfinished copy; "commit" puts the unfinished copy `source` to its place; "sync" has
            a file last through a power cut; "remove" a file or a checkpoint, if it is there.
        name: Which file or checkpoint, by its path inside the trial's directory.
        data: What to write.
        offset: Where an appended piece belongs.
        source: Which unfinished copy.
    """

    kind: Literal["replace", "append", "part", "commit", "sync", "remove"]
    name: str
    data: bytes = b""
    offset: int = 0
    source: str = ""


class DriverFiles:
    """Reads and writes a run's directory in the name of trials that do not see it."""

    def __init__(self, run: str) -> None:
        self._run = Path(run)
        self._claims: dict[str, tuple[str, TrialDirectory]] = {}
        self._lock = threading.Lock()

    def ready(self) -> None:
        """Returns once the object is made."""

    def claim(self, trial: str, *, by_force: bool) -> str | None:
        """Makes the caller the only one whose writes of a trial are taken.

        Args:
            trial: The trial's name.
            by_force: Whether to take it from who has it. A machine that was given up for lost may still be running
                the trial; it must not write on.

        Returns:
            What the caller shows with each write; None while somebody else has the trial.

        Raises:
            UsageError: If it is to be taken from a living process that sees the directory.
        """
        with self._lock:
            directory = self._claims[trial][1] if trial in self._claims else TrialDirectory(self._run / trial)
            if trial not in self._claims:
                try:
                    directory.claim(timeout_s=0)
                except UsageError:
                    if by_force:
                        raise
                    return None
            elif not by_force:
                return None
            claim = secrets.token_hex(8)
            self._claims[trial] = (claim, directory)
            remove_leftovers(directory.path)
            remove_leftovers(directory.checkpoints)
            return claim

    def release(self, trial: str, claim: str | None = None) -> None:
        """Lets others claim a trial.

        Args:
            trial: The trial's name.
            claim: Whose claim it is; that of somebody else is left. None for whosever it is.
        """
        with self._lock:
            if trial in self._claims and claim in (None, self._claims[trial][0]):
                self._claims.pop(trial)[1].release()

    def apply(self, trial: str, claim: str, operations: Sequence[Operation]) -> None:
        """Carries out operations in a trial's directory, in order.

        Raises:
            TrainingFailed: If somebody else has claimed the trial since.
            OutOfResources: If the disk is full.
        """
        with self._lock:
            if self._claims.get(trial, ("", None))[0] != claim:
                raise TrainingFailed(f"{trial}: was started anew elsewhere; this process no longer writes its results")
        for operation in operations:
            _do(self._run / trial, operation)

    def contents(self, trial: str) -> list[tuple[str, int]]:
        """Returns what a trial needs to go on: files by their path inside its directory, with their sizes.

        Of the newest valid checkpoint, and of newer ones that are damaged, these are all files; of older ones, which
        only count when it comes to what is kept, the manifest.
        """
        directory = self._run / trial
        needed = _needed_checkpoints(directory)
        files: list[str] = []
        for name, item in items_of(directory).items():
            if not item.is_checkpoint:
                files.append(name)
            elif directory / name in needed:
                files += [f"{name}/{file}" for file in files_of_checkpoint(directory / name)]
            else:
                files.append(f"{name}/{MANIFEST_FILE}")
        return [(name, (directory / name).stat().st_size) for name in files]

    def checkpoint(self, path: str) -> list[tuple[str, int]]:
        """Returns a checkpoint's files by their path inside it, with their sizes.

        Args:
            path: The checkpoint's directory anywhere on this machine.

        Returns:
            Them; [] if there is no checkpoint.
        """
        directory = self._run / path
        if not (directory / MANIFEST_FILE).is_file():
            return []
        return [(name, (directory / name).stat().st_size) for name in files_of_checkpoint(directory)]

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Returns a piece of a file, shorter where the file ends.

        Args:
            path: The file, absolute or inside the run's directory.
            offset: Where the piece begins.
            size: Its length in bytes.
        """
        with (self._run / path).open("rb") as file:
            file.seek(offset)
            return file.read(size)


class RemoteFiles:
    """The actor's methods, called from a trial's process."""

    def __init__(self, name: str) -> None:
        """Finds the actor.

        Args:
            name: What `start_driver_files` returned.

        Raises:
            TrainingFailed: If it is gone, and the driver with it.
        """
        import ray

        try:
            self._actor = ray.get_actor(name)
        except ValueError as error:
            raise TrainingFailed(f"the run's driver cannot be reached: {error}") from error

    def claim(self, trial: str, *, by_force: bool) -> str | None:
        """See `DriverFiles.claim`."""
        claim: str | None = self._ask("claim", trial, by_force=by_force)
        return claim

    def release(self, trial: str, claim: str | None = None) -> None:
        """See `DriverFiles.release`."""
        self._ask("release", trial, claim)

    def apply(self, trial: str, claim: str, operations: Sequence[Operation]) -> None:
        """See `DriverFiles.apply`."""
        self._ask("apply", trial, claim, operations)

    def contents(self, trial: str) -> list[tuple[str, int]]:
        """See `DriverFiles.contents`."""
        files: list[tuple[str, int]] = self._ask("contents", trial)
        return files

    def checkpoint(self, path: str) -> list[tuple[str, int]]:
        """See `DriverFiles.checkpoint`."""
        files: list[tuple[str, int]] = self._ask("checkpoint", path)
        return files

    def read(self, path: str, offset: int, size: int) -> bytes:
        """See `DriverFiles.read`."""
        data: bytes = self._ask("read", path, offset, size)
        return data

    def _ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            return ray.get(getattr(self._actor, method).remote(*arguments, **options))
        except RayTaskError as error:
            if isinstance(error.cause, RlrunError):
                raise error.cause from None
            raise TrainingFailed(f"the driver's disk: {error.cause}") from error
        except RayError as error:
            raise TrainingFailed(f"the run's driver cannot be reached: {error}") from error


RunFiles = DriverFiles | RemoteFiles
"""What a trial on another machine can ask for."""


def start_driver_files(run: Path) -> tuple[str, Any]:
    """Starts the actor on this process's node; it ends with the handle, or with this process.

    Args:
        run: The run's directory.

    Returns:
        Its name, by which trials find it, and Ray's handle.

    Raises:
        UsageError: If the cluster cannot start it. One without a token cannot: it takes our calls, but we not its own.
    """
    import ray
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    name = f"rlrun-disk-{secrets.token_hex(8)}"
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    remote_disk = ray.remote(num_cpus=0, max_concurrency=8)(DriverFiles)
    actor = remote_disk.options(name=name, scheduling_strategy=here).remote(str(run.absolute()))
    try:
        ray.get(actor.ready.remote())
    except RayError as error:
        raise UsageError(
            "the cluster cannot run anything for this process; if it was started without a token, start each of its "
            f"nodes anew with RAY_AUTH_MODE=token: {str(error).splitlines()[0]}"
        ) from error
    return name, actor


def _needed_checkpoints(directory: Path) -> set[Path]:
    needed = set()
    for path in reversed(CheckpointStore(directory / "checkpoints").paths()):
        needed.add(path)
        try:
            verify_checkpoint(path)
        except CheckpointError:
            continue
        break
    return needed


def _do(directory: Path, operation: Operation) -> None:
    path = directory / operation.name
    path.parent.mkdir(parents=True, exist_ok=True)
    with explained_full_disk(path, lambda: len(operation.data)):
        if operation.kind == "replace":
            write_file(path, operation.data)
        elif operation.kind == "append":
            _write_at(path, operation.offset, operation.data)
        elif operation.kind == "part":
            with path.open("ab") as file:
                file.write(operation.data)
        elif operation.kind == "commit":
            _commit(directory / operation.source, path)
        elif operation.kind == "sync":
            sync(path)
        elif path.is_dir():
            remove_directory(path)
        else:
            path.unlink(missing_ok=True)


def _write_at(path: Path, offset: int, data: bytes) -> None:
    """Appends a piece; one that is sent again, because the answer got lost, changes nothing."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        there = file.seek(0, os.SEEK_END)
        if there < offset:
            raise TrainingFailed(f"{path}: has {there} bytes where its trial has written {offset}: was it changed?")
        file.seek(offset)
        file.write(data)


def _commit(partial: Path, path: Path) -> None:
    if partial.is_dir():
        put_directory(partial, path)
    else:
        sync(partial)
        partial.replace(path)
        sync(path.parent)
