"""The directory of one trial: what it is, how it stands, and who is running it.

trial.json         status, parameters, counters, error; replaced atomically
spec.yaml          the resolved trial
result.json progress.csv events.*
checkpoints/       iteration_000010 and so on
picture_*.svg      what a policy has learned, as its algorithm draws it; replaced behind evaluations
failed/            after training has diverged: the parameters before that, and what they were given
error.txt          the traceback of what ended it
.env-steps-*       while its own process or a worker of it steps envs: which one, and in which episode
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from rlrun.checkpoint.durable import remove_leftovers, write_file
from rlrun.checkpoint.own_digest import json_with_digest, read_unaltered
from rlrun.checkpoint.plain_json import load_json
from rlrun.checkpoint.plain_yaml import dump_plain_yaml, load_plain_yaml
from rlrun.errors import RunDamaged, UsageError
from rlrun.trial.results import RETURN

TrialStatus = Literal["PENDING", "RUNNING", "PAUSED", "TERMINATED", "ERROR", "INTERRUPTED"]

TRIAL_FILE = "trial.json"
SPEC_FILE = "spec.yaml"
ERROR_FILE = "error.txt"
PICTURES = "picture_*.svg"
"""What the names of pictures match."""

_LOCK_FILE = ".lock"

CLAIM_TIMEOUT_S = 10.0
"""How long a trial waits for the process that ran it before, which may be about to end."""

# Locks of this kind belong to a process, not to an open file: a process does not see its own.
_claimed_here: set[Path] = set()


@dataclass(frozen=True)
class TrialRecord:
    """How a trial stands, as trial.json says it.

    Attributes:
        name: Name of the trial, which is also its directory's.
        status: PENDING before its start, RUNNING, PAUSED while a scheduler lets it wait, TERMINATED when done, ERROR,
            INTERRUPTED.
        seed: Its root seed.
        params: What varies between the trials of its experiment.
        iteration: The last iteration that had its row when this was written.
        env_steps: Env steps taken when this was written.
        best_return: The highest mean return when this was written, None if there was none.
        judged_by: The metric that says how good it is: the return, as in records that do not name one, or what
            evaluations measure.
        best_score: The highest value of that metric when this was written, None if there was none.
        results_bytes: How long result.json was with the row of that iteration.
        results_sha256: The digest of so much of it; "" before the first row, and where an earlier rlrun wrote this.
        stop_reason: Why it is done, "" before.
        error: What went wrong in one message; the traceback is in error.txt.
        exact_resume: Whether every resume so far went on bit for bit, None if there was none. False too from where a
            lost rollout worker could not be replaced so.
        from_checkpoint: The checkpoint whose weights it started with, or None.
        network: How its observations enter the network, in lines; none before its training was built.
        pid: The process that runs it, None if none does.
        host: The machine of that process, "" if none runs it.
        notes: What the user was told while it ran, such as why its updates are not computed by NumPy.
    """

    name: str
    status: TrialStatus
    seed: int
    params: dict[str, Any] = field(default_factory=dict)
    iteration: int = 0
    env_steps: int = 0
    best_return: float | None = None
    judged_by: str = RETURN
    best_score: float | None = None
    results_bytes: int = 0
    results_sha256: str = ""
    stop_reason: str = ""
    error: str = ""
    exact_resume: bool | None = None
    from_checkpoint: str | None = None
    network: list[str] = field(default_factory=list)
    pid: int | None = None
    host: str = ""
    notes: list[str] = field(default_factory=list)


class TrialDirectory:
    """Reads and writes what belongs to one trial.

    Attributes:
        path: The directory.
    """

    def __init__(self, path: Path) -> None:
        """Names a directory, which need not exist before something is written."""
        self.path = Path(path)
        self._lock: int | None = None

    @property
    def checkpoints(self) -> Path:
        """Where its checkpoints are."""
        return self.path / "checkpoints"

    @property
    def failed(self) -> Path:
        """Where the parameters before a divergence are."""
        return self.path / "failed"

    def write_record(self, record: TrialRecord) -> None:
        """Replaces trial.json."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_file(self.path / TRIAL_FILE, json_with_digest(asdict(record)))

    def read_record(self) -> TrialRecord | None:
        """Returns how the trial stands, or None if nothing was written yet.

        Raises:
            RunDamaged: If trial.json is not what `write_record` writes, or was altered.
        """
        path = self.path / TRIAL_FILE
        try:
            data = load_json(read_unaltered(path))
            return TrialRecord(**{known.name: data[known.name] for known in fields(TrialRecord) if known.name in data})
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise RunDamaged(f"{path}: cannot be understood: {error}") from error

    def write_spec(self, spec: Mapping[str, Any]) -> None:
        """Replaces spec.yaml."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_file(self.path / SPEC_FILE, dump_plain_yaml(dict(spec)).encode())

    def read_spec(self) -> dict[str, Any]:
        """Returns the resolved trial.

        Raises:
            RunDamaged: If spec.yaml is missing or not what `write_spec` writes.
        """
        path = self.path / SPEC_FILE
        try:
            spec = load_plain_yaml(read_unaltered(path).decode())
        except FileNotFoundError:
            raise RunDamaged(f"{path}: does not exist") from None
        except ValueError as error:
            raise RunDamaged(f"{path}: cannot be understood: {error}") from error
        if not isinstance(spec, dict):
            raise RunDamaged(f"{path}: not a mapping")
        return spec

    def write_picture(self, policy: str, picture: str) -> None:
        """Replaces the picture of what a policy has learned."""
        write_file(self.path / PICTURES.replace("*", policy), picture.encode())

    def write_error(self, text: str) -> None:
        """Replaces error.txt."""
        write_file(self.path / ERROR_FILE, text.encode(errors="replace"))

    def clear_error(self) -> None:
        """Removes error.txt, when the trial goes on."""
        (self.path / ERROR_FILE).unlink(missing_ok=True)

    def claim(self, timeout_s: float = CLAIM_TIMEOUT_S) -> None:
        """Makes this process the only one that runs the trial; however it ends, even by a kill, the claim ends with it.

        What a kill has left of half-written files is removed, as nobody else can be writing them.

        Args:
            timeout_s: How long to wait for another process to let go.

        Raises:
            UsageError: If another process, or this one, is running it already.
            RunDamaged: If a directory stands in the place of its lock.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        if self.path.resolve() in _claimed_here:
            raise UsageError(f"{self.path}: this process is running the trial already")
        try:
            lock = os.open(self.path / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except IsADirectoryError:
            raise RunDamaged(f"{self.path / _LOCK_FILE}: is a directory; remove it") from None
        deadline = time.monotonic() + timeout_s
        while not _try_lock(lock):
            if time.monotonic() >= deadline:
                os.close(lock)
                raise UsageError(f"{self.path}: {self._holder()} is running the trial")
            time.sleep(0.05)
        self._lock = lock
        _claimed_here.add(self.path.resolve())
        with suppress(OSError):  # whatever cannot be removed keeps nobody from running the trial
            for directory in (self.path, self.checkpoints):
                remove_leftovers(directory)

    def release(self) -> None:
        """Lets go of the trial, if this object has claimed it."""
        if self._lock is not None:
            _claimed_here.discard(self.path.resolve())
            os.close(self._lock)
            self._lock = None

    def is_claimed(self) -> bool:
        """Whether some process is running the trial, whatever trial.json says; False after a kill."""
        if self.path.resolve() in _claimed_here:
            return True
        try:
            lock = os.open(self.path / _LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, IsADirectoryError):
            return False
        try:
            return not _try_lock(lock)
        finally:
            os.close(lock)

    def _holder(self) -> str:
        record = self.read_record()
        return f"process {record.pid}" if record is not None and record.pid is not None else "another process"


def _try_lock(descriptor: int) -> bool:
    """Locks a file unless another process has; on a file system without locks everyone is trusted."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
    return True
