"""Ownership of a run's copy in remote storage: only one process, on any machine, may change the copy.

The folder ``.owners`` of the copy has a record for each owner, named by its generation and a random token. An owner
rewrites its own record every `RENEW_EVERY_S` seconds. A process that wants to own the copy watches the newest record:
if the record changes, its owner is alive; if it stays the same for `GONE_AFTER_S` seconds, its owner is gone. Only
changes count, so the clocks of the machines need not agree.

The new owner writes a record of the next generation. The process with the highest generation owns the copy; an owner
that finds a record of a higher generation has lost the copy. No process ever writes another's record, so an owner that
was stopped for an hour, and continues in the middle of a renewal, cannot take the copy back. If two processes claim the
same generation, at least one of them finds the other's record, since each writes its record before it lists all
records; a process that finds another's record withdraws. This holds for storage whose listings show all completed
writes: local and network file systems, HDFS, and the object stores of the large cloud providers.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import platform
import random
import re
import secrets
import shlex
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import TypeAdapter
from typing_extensions import override

from rlrun.engine.checkpoint.durable import write_file
from rlrun.engine.checkpoint.file_systems import file_system, read_chunks, write_chunks
from rlrun.engine.checkpoint.plain_json import load_json
from rlrun.engine.messages.errors import RunDamaged, RunTakenOver, UsageError
from rlrun.engine.processes.process_end import end_process
from rlrun.experiments.runs.run_directory import RUN_FILE

OWNERS = ".owners"
"""Folder of the records in a copy."""

RENEW_EVERY_S = 10.0
"""Seconds between two renewals of the owner's record."""

GONE_AFTER_S = 60.0
"""Seconds without a renewal after which an owner counts as gone."""

TRUST_S = 20.0
"""Seconds for which an owner relies on its last check of the records; the rest of `GONE_AFTER_S` is for slow
uploads."""

POLL_EVERY_S = 1.0
"""Seconds between two checks of another owner's record."""

PATIENCE_S = 5.0
"""Maximum time in seconds that training waits for a storage that does not respond."""

SEEN_FILE = ".copy"
"""File in the run's directory that names the owner records under which the copy had this directory's content."""

_RECORD_NAME = re.compile(r"(\d{6,})-[0-9a-f]{16}\.json")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OwnerRecord:
    """Record of the process that owns a run's copy in external storage; it is stored with the copy.

    Attributes:
        host: Machine of the owner.
        pid: Id of the owner's process.
        place: Identifies the machine's current boot and the namespace of its process ids.
        started: Time of the takeover, ISO 8601 in UTC.
        generation: Number of the owner among all owners that the copy has had, starting at 1.
        renewed: Number of renewals.
        released: Whether the owner released the copy when it ended.
    """

    host: str
    pid: int
    place: str
    started: str
    generation: int
    renewed: int = 0
    released: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether the owner is known to have ended: it released the copy, or its process on this machine is gone."""
        return self.released or (self.place == _place() and not _is_alive(self.pid))

    @override
    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} (since {self.started})"


_RECORD = TypeAdapter(OwnerRecord)


def end_without_copy(loss: RunTakenOver) -> None:
    """Prints that ownership of a copy is lost, and ends this process at once."""
    print(f"Error: {loss}", file=sys.stderr, flush=True)
    end_process(loss)


class CopyOwner:
    """Context manager in which this process owns a run's copy; a thread renews the owner's record.

    Args:
        uri: Path or URI of the copy.
        run: The run's directory; None if the run is yet to be fetched.
        lost: Called in the renewal thread when another process has taken over; usually ends this process.

    Attributes:
        uri: Path or URI of the copy.
    """

    def __init__(self, uri: str, run: Path | None, lost: Callable[[RunTakenOver], object] = end_without_copy) -> None:
        self.uri = uri
        self._run = run
        self._lost = lost
        self._files, self._root = file_system(uri)
        self._name = ""
        self._record = OwnerRecord(platform.node(), os.getpid(), _place(), "", 0)
        self._seen: tuple[str, ...] = ()
        self._confirmed_at = self._tried_at = self._asked_at = 0.0
        self._loss: RunTakenOver | None = None
        self._is_over = False
        self._wake = threading.Event()
        self._answer = threading.Condition()
        self._thread = threading.Thread(target=self._follow, name="rlrun-owner", daemon=True)

    def __enter__(self) -> Self:
        """Takes ownership once the previous owner is known to be gone.

        Raises:
            UsageError: The previous owner is alive, the storage cannot be used, or the copy is newer than the run's
                directory.
            RunDamaged: A record cannot be read.
        """
        try:
            self._claim()
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot write to storage {self.uri}: {error}") from error
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Releases the copy, so that the next owner need not wait."""
        self._is_over = True
        self._wake.set()
        self._thread.join()
        if self._loss is not None:
            return
        try:
            if self._has_run() or not self._remove_if_empty():
                self._write(replace(self._record, released=True))
        except (OSError, ValueError) as failure:
            _log.warning("cannot release the copy in storage %s: %s", self.uri, failure)

    def confirm(self) -> None:
        """Confirms that this process owns the copy, before anything is written to the copy.

        Raises:
            RunTakenOver: Another process has taken over.
            OSError: The storage cannot be reached.
        """
        asked = _clock()
        if asked - self._confirmed_at < TRUST_S:
            return
        self._ask(asked, timeout_s=None)
        if self._confirmed_at < asked:
            raise OSError("it cannot be confirmed that this process owns the copy")

    def confirm_if_reachable(self) -> None:
        """Confirms that this process owns the copy, before anything is written to the run's directory.

        While the storage cannot be reached, the run continues in its directory.

        Raises:
            RunTakenOver: Another process has taken over.
        """
        asked = _clock()
        if asked - max(self._tried_at, self._asked_at) >= TRUST_S:
            self._asked_at = asked
            self._ask(asked, timeout_s=PATIENCE_S)

    def is_outdated(self) -> bool:
        """Whether the run was continued elsewhere from its copy, so that the run's directory is older than the copy.

        Raises:
            UsageError: The storage cannot be reached.
            RunDamaged: A record cannot be read.
        """
        try:
            return self._other(self._newest()) is not None
        except OSError as error:
            raise UsageError(f"cannot reach storage {self.uri}: {error}") from error

    def note_content(self, run: Path) -> None:
        """Records in a run's directory that its content equals the copy's for as long as this process owns the copy."""
        write_file(run / SEEN_FILE, "\n".join((*self._seen, self._name)).encode())

    def _claim(self) -> None:
        for attempt in itertools.count():
            before = self._newest_without_owner()
            self._refuse_outdated(before)
            self._seen = tuple(before)
            generation = max(map(_generation, before), default=0) + 1
            self._name = f"{generation:06d}-{secrets.token_hex(8)}.json"
            started = datetime.now(UTC).isoformat(timespec="seconds")
            if self._run is not None:  # before the claim is written, so that a killed run can be resumed
                self.note_content(self._run)
            self._confirmed_at = self._tried_at = _clock()
            self._write(replace(self._record, started=started, generation=generation))
            names = self._names()
            if all(_generation(name) < generation for name in names if name != self._name):
                break
            self._files.delete_file(self._path(self._name))
            time.sleep(random.uniform(0, POLL_EVERY_S * 2**attempt))  # random, so competing processes do not collide
        for name in names:
            if name != self._name:
                with suppress(OSError):  # a former owner's record does no harm
                    self._files.delete_file(self._path(name))

    def _newest_without_owner(self) -> Mapping[str, bytes]:
        """Records of the highest generation, once their owners are known to be gone.

        Raises:
            UsageError: An owner has renewed its record.
        """
        seen = self._newest()
        deadline: float | None = None
        while living := [record for record in map(_parsed, seen.values()) if not record.is_gone]:
            if deadline is None:
                deadline = _clock() + GONE_AFTER_S
                _log.warning(
                    "the run in storage %s was last run by %s; waiting up to %.0f s to see whether that process is "
                    "still running it",
                    self.uri,
                    living[0],
                    GONE_AFTER_S,
                )
            elif _clock() >= deadline:
                break
            time.sleep(POLL_EVERY_S)
            now = self._newest()
            for name, data in now.items():
                if seen.get(name) != data and not (record := _parsed(data)).is_gone:
                    raise UsageError(f"the run in storage {self.uri} is already running in {record}")
            seen = now
        return seen

    def _refuse_outdated(self, records: Mapping[str, bytes]) -> None:
        """Raises an error if the copy was last updated from a directory other than the run's.

        Raises:
            UsageError: With the commands that continue from the copy.
        """
        if (last := self._other(records)) is not None:
            raise UsageError(
                f"{self._run} is out of date: {last.host} has been running its copy {self.uri} since "
                f"{last.started}. Move this directory away, and continue from the copy: rlrun resume "
                f"{shlex.quote(self.uri)}"
            )

    def _other(self, records: Mapping[str, bytes]) -> OwnerRecord | None:
        """The newest owner if the copy has the content of a directory other than the run's, else None."""
        if self._run is None or not records or self.is_in_place or not self._has_run():
            return None
        try:
            seen = (self._run / SEEN_FILE).read_text().split()
        except FileNotFoundError:
            seen = []
        return None if records.keys() & set(seen) else _parsed(next(iter(records.values())))

    @property
    def is_in_place(self) -> bool:
        """Whether the copy is the run's directory itself."""
        return (
            self._run is not None
            and self._files.type_name == "local"
            and Path(self._root).resolve() == self._run.resolve()
        )

    def _follow(self) -> None:
        while self._loss is None:
            self._wake.wait(RENEW_EVERY_S)
            self._wake.clear()
            if self._is_over:
                return
            self._renew()

    def _renew(self) -> None:
        """Renews this process's record, and looks for a newer one."""
        began = _clock()
        loss = None
        with suppress(OSError, ValueError):  # `confirm` reports storage that cannot be reached
            self._write(replace(self._record, renewed=self._record.renewed + 1))
            newer = [name for name in self._names() if _generation(name) > self._record.generation]
            if newer:
                loss = self._lost_to(max(newer))
                self._lost(loss)
            else:
                self._confirmed_at = began
        with self._answer:
            self._loss, self._tried_at = loss, began
            self._answer.notify_all()

    def _ask(self, asked: float, timeout_s: float | None) -> None:
        """Makes the thread renew the record now, and waits for it.

        Raises:
            RunTakenOver: Another process has taken over.
        """
        self._wake.set()
        with self._answer:
            self._answer.wait_for(lambda: self._loss is not None or self._tried_at >= asked, timeout_s)
        if self._loss is not None:
            raise self._loss

    def _lost_to(self, name: str) -> RunTakenOver:
        try:
            owner = str(_parsed(self._read(name)))
        except (OSError, RunDamaged):
            owner = "another process"
        return RunTakenOver(
            f"the run in storage {self.uri} was taken over by {owner} (generation {_generation(name)}; this process "
            f"had generation {self._record.generation}). Nothing more is copied there; "
            f"{self._run or 'the fetched run'} stays as it is"
        )

    def _newest(self) -> dict[str, bytes]:
        """Records of the highest generation, by name; several only if processes claim the copy at the same time."""
        names = self._names()
        found: dict[str, bytes] = {}
        for name in names:
            if _generation(name) == max(map(_generation, names)):
                with suppress(FileNotFoundError):  # withdrawn
                    found[name] = self._read(name)
        return found

    def _names(self) -> list[str]:
        return _names(self._files, self._root)

    def _read(self, name: str) -> bytes:
        return b"".join(read_chunks(self._files, self._path(name)))

    def _write(self, record: OwnerRecord) -> None:
        write_chunks(self._files, self._path(self._name), [json.dumps(asdict(record)).encode()])
        self._record = record

    def _path(self, name: str) -> str:
        return f"{self._root}/{OWNERS}/{name}"

    def _has_run(self) -> bool:
        return bool(self._files.get_file_info(f"{self._root}/{RUN_FILE}").type.name != "NotFound")

    def _remove_if_empty(self) -> bool:
        """Removes a copy without files, left by a run that could not start, so that its name can be used again."""
        from pyarrow.fs import FileSelector

        found = self._files.get_file_info(FileSelector(self._root, allow_not_found=True, recursive=True))
        inside = f"{self._root}/{OWNERS}/"
        is_empty = not any(info.type.name == "File" and not info.path.startswith(inside) for info in found)
        if is_empty and found:
            self._files.delete_dir(self._root)
        return is_empty


@dataclass(frozen=True)
class LastOwner:
    """Owner of a run's copy, as seen by another process; the owner may still be running.

    Attributes:
        record: The owner's record.
        renewed_s_ago: Seconds since the last renewal of the record, provided that the clocks of the storage and this
            machine agree; 0 if the storage does not record the time.
    """

    record: OwnerRecord
    renewed_s_ago: float

    @property
    def is_alive(self) -> bool:
        """Whether the owner has renewed its record recently; wrong if clocks differ by `GONE_AFTER_S` or more."""
        return self.renewed_s_ago < GONE_AFTER_S


def owner_of(uri: str) -> LastOwner | None:
    """Owner of a run's copy; None if no process owns it.

    An owner that was killed on another machine still counts.

    Raises:
        UsageError: There is no such storage, or it cannot be reached.
        RunDamaged: A record cannot be read.
    """
    files, root = file_system(uri)
    try:
        names = _names(files, root)
        if not names:
            return None
        path = f"{root}/{OWNERS}/{max(names)}"
        record = _parsed(b"".join(read_chunks(files, path)))
        renewed_ns = files.get_file_info(path).mtime_ns
    except OSError as error:
        raise UsageError(f"cannot reach storage {uri}: {error}") from error
    age_s = 0.0 if renewed_ns is None else max(0.0, time.time() - renewed_ns / 1e9)
    return None if record.is_gone else LastOwner(record, age_s)


def _names(files: Any, root: str) -> list[str]:
    """Names of the records of a copy, the newest last."""
    from pyarrow.fs import FileSelector

    found = files.get_file_info(FileSelector(f"{root}/{OWNERS}", allow_not_found=True))
    return sorted((info.base_name for info in found if _RECORD_NAME.fullmatch(info.base_name)), key=_generation)


def _generation(name: str) -> int:
    return int(name.partition("-")[0])


def _parsed(data: bytes) -> OwnerRecord:
    try:
        return _RECORD.validate_python(load_json(data))
    except ValueError as error:
        raise RunDamaged(f"cannot parse a record in the folder {OWNERS} of a run's copy: {error}") from error


def _place() -> str:
    """Identifies this machine's boot and the namespace of process ids, outside of which a pid has no meaning."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')}"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _clock() -> float:
    """Seconds since the boot, including the time for which the machine was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
