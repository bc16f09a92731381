"""File server on the driver's node, for trials on machines without access to the run's directory.

A small actor without CPUs writes the files of such trials into the run's directory, and reads the files from which they
resume. A trial sends a list of operations, which are carried out in order. A checkpoint is assembled under a temporary
name and renamed, so that the write is atomic, as for a local trial.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rlrun.engine.checkpoint.durable import (
    commit_directory,
    explained_full_disk,
    remove_directory,
    remove_leftovers,
    sync,
    write_file,
)
from rlrun.engine.checkpoint.format import verify_checkpoint
from rlrun.engine.checkpoint.manifest import MANIFEST_FILE
from rlrun.engine.checkpoint.store import CheckpointStore
from rlrun.engine.messages.errors import CheckpointError, RlrunError, TrainingFailed, UsageError
from rlrun.experiments.runs.file_items import files_of_checkpoint, items_of
from rlrun.experiments.trial.trial_directory import TrialDirectory


@dataclass(frozen=True)
class Operation:
    """One operation on a file or checkpoint in a trial's directory.

    Attributes:
        kind: "replace" a file with `data`; "append" `data` to a file of `offset` bytes; "part" appends `data` to a file
            in an unfinished copy; "commit" renames the unfinished copy `source` to `name`; "sync" flushes a file to
            disk (fsync); "remove" a file or a checkpoint, if it exists.
        name: Path of the file or checkpoint inside the trial's directory.
        data: Bytes to write.
        offset: Position of an appended piece in the file.
        source: Path of the unfinished copy inside the trial's directory.
    """

    kind: Literal["replace", "append", "part", "commit", "sync", "remove"]
    name: str
    data: bytes = b""
    offset: int = 0
    source: str = ""


class DriverFiles:
    """Ray actor that reads and writes a run's directory for trials on machines without access to the directory."""

    def __init__(self, run: str) -> None:
        self._run = Path(run)
        self._claims: dict[str, tuple[str, TrialDirectory]] = {}
        self._lock = threading.Lock()

    def ready(self) -> None:
        """Readiness check that returns once the actor is constructed."""

    def claim(self, trial: str, *, by_force: bool) -> str | None:
        """Grants the caller exclusive write access to a trial's directory.

        Args:
            trial: The trial's name.
            by_force: Whether to revoke another process's claim. A machine that counts as lost may still be
                running the trial; its writes must be rejected.

        Returns:
            A token that the caller must pass with each write; None while another process holds the claim.

        Raises:
            UsageError: If the process that holds the claim is running and has direct access to the directory.
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
        """Releases the claim on a trial's directory, so that another process can claim it.

        Args:
            trial: The trial's name.
            claim: Token of the claim; other claims are not released. None for any claim.
        """
        with self._lock:
            if trial in self._claims and claim in (None, self._claims[trial][0]):
                self._claims.pop(trial)[1].release()

    def apply(self, trial: str, claim: str, operations: Sequence[Operation]) -> None:
        """Applies file operations to a trial's directory, in order.

        Raises:
            TrainingFailed: If another process has claimed the trial in the meantime.
            OutOfResources: If the disk is full.
        """
        with self._lock:
            if self._claims.get(trial, ("", None))[0] != claim:
                raise TrainingFailed(
                    f"{trial} was restarted in another process, so this process no longer writes its results"
                )
        for operation in operations:
            _carry_out(self._run / trial, operation)

    def contents(self, trial: str) -> list[tuple[str, int]]:
        """Lists the files required to resume a trial, as pairs (path inside the trial's directory, size in bytes).

        The list contains all files of the newest valid checkpoint and of any newer, damaged checkpoints. For older
        checkpoints, it contains only the manifest, which the checkpoint store needs to decide what to keep.
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
        """Lists the files of a checkpoint, as pairs (path inside the checkpoint, size in bytes); [] if there is none.

        Args:
            path: The checkpoint's directory, absolute or inside the run's directory.
        """
        directory = self._run / path
        if not (directory / MANIFEST_FILE).is_file():
            return []
        return [(name, (directory / name).stat().st_size) for name in files_of_checkpoint(directory)]

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Reads a chunk of a file; the last chunk may be shorter.

        Args:
            path: The file, absolute or inside the run's directory.
            offset: Offset of the chunk in the file, in bytes.
            size: Length of the chunk in bytes.
        """
        with (self._run / path).open("rb") as file:
            file.seek(offset)
            return file.read(size)


class RemoteFiles:
    """Client of the `DriverFiles` actor, through which a trial's process accesses the run's directory remotely.

    Args:
        name: The actor's name, as `start_driver_files` returned it.

    Raises:
        TrainingFailed: If the actor has died, which means that the driver has died too.
    """

    def __init__(self, name: str) -> None:
        import ray

        try:
            self._actor = ray.get_actor(name)
        except ValueError as error:
            raise TrainingFailed(f"cannot reach the run's driver: {error}") from error

    def claim(self, trial: str, *, by_force: bool) -> str | None:
        """Claims exclusive write access to a trial's directory by calling `DriverFiles.claim` remotely."""
        claim: str | None = self._call("claim", trial, by_force=by_force)
        return claim

    def release(self, trial: str, claim: str | None = None) -> None:
        """Releases a trial's claim on its directory by calling `DriverFiles.release` remotely."""
        self._call("release", trial, claim)

    def apply(self, trial: str, claim: str, operations: Sequence[Operation]) -> None:
        """Applies file operations to a trial's directory by calling `DriverFiles.apply` remotely."""
        self._call("apply", trial, claim, operations)

    def contents(self, trial: str) -> list[tuple[str, int]]:
        """Lists the files required to resume a trial by calling `DriverFiles.contents` remotely."""
        files: list[tuple[str, int]] = self._call("contents", trial)
        return files

    def checkpoint(self, path: str) -> list[tuple[str, int]]:
        """Lists the files of a checkpoint by calling `DriverFiles.checkpoint` remotely."""
        files: list[tuple[str, int]] = self._call("checkpoint", path)
        return files

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Reads a chunk of a file by calling `DriverFiles.read` remotely."""
        data: bytes = self._call("read", path, offset, size)
        return data

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            return ray.get(getattr(self._actor, method).remote(*arguments, **options))
        except RayTaskError as error:
            if isinstance(error.cause, RlrunError):
                raise error.cause from None
            raise TrainingFailed(f"error on the driver's disk: {error.cause}") from error
        except RayError as error:
            raise TrainingFailed(f"cannot reach the run's driver: {error}") from error


RunFiles = DriverFiles | RemoteFiles
"""Type of the access to a run's directory: local in this process, or remote through the actor."""


def start_driver_files(run: Path) -> tuple[str, Any]:
    """Starts the `DriverFiles` actor, which gives trials on other machines access to a run's directory.

    The actor runs on this process's node, and ends with this process.

    Args:
        run: The run's directory.

    Returns:
        The name under which trials find the actor, and Ray's handle to the actor.

    Raises:
        UsageError: If the cluster cannot start the actor, for example for lack of a valid token.
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
            "the cluster rejects tasks of this process; if the cluster was started without a token, restart "
            f"each node with RAY_AUTH_MODE=token: {str(error).splitlines()[0]}"
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


def _carry_out(directory: Path, operation: Operation) -> None:
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
    """Idempotent write of a chunk at an offset; a chunk sent twice after a lost reply has no further effect."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        there = file.seek(0, os.SEEK_END)
        if there < offset:
            raise TrainingFailed(
                f"{path}: has {there} bytes, but its trial has written {offset}; has another program changed the file?"
            )
        file.seek(offset)
        file.write(data)


def _commit(partial: Path, path: Path) -> None:
    if partial.is_dir():
        commit_directory(partial, path)
    else:
        sync(partial)
        partial.replace(path)
        sync(path.parent)
