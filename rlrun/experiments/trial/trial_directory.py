"""Directory of one trial: data files, status record and lock.

The files of a trial::

    trial.json         status, parameters, counters and error; replaced atomically
    spec.yaml          the trial's spec, with all defaults filled in
    result.json        one row of metrics per iteration; also in progress.csv and events.*
    checkpoints/       iteration_000010 and so on
    picture_*.svg      pictures of a policy, drawn by its algorithm; replaced after evaluations
    episodes.txt       sample episodes as text, one per line; replaced after evaluations
    failed/            after divergence: the last batch, and the parameters from before the iteration
    error.txt          traceback of the error that ended the trial
    .env-steps-*       env and episode that the trial's process or a worker is currently stepping
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from rlrun.engine.checkpoint.durable import remove_leftovers, write_file
from rlrun.engine.checkpoint.own_digest import json_with_digest, read_verified
from rlrun.engine.checkpoint.plain_json import first_mistake, load_json
from rlrun.engine.checkpoint.plain_yaml import dump_plain_yaml, load_plain_yaml
from rlrun.engine.messages.errors import RunDamaged, UsageError
from rlrun.experiments.trial.results import RETURN

TrialStatus = Literal["PENDING", "RUNNING", "PAUSED", "TERMINATED", "ERROR", "INTERRUPTED"]

TRIAL_FILE = "trial.json"
SPEC_FILE = "spec.yaml"
ERROR_FILE = "error.txt"
EPISODES_FILE = "episodes.txt"
PICTURES = "picture_*.svg"
"""Glob pattern for the file names of the trial's pictures."""

_LOCK_FILE = ".lock"

CLAIM_TIMEOUT_S = 10.0
"""Seconds that a trial waits for a previous process of the trial, which may be about to end, to release the lock."""

# The locks belong to a process, not to an open file, so they do not keep a process from claiming a trial twice.
_claimed_here: set[Path] = set()


@dataclass(frozen=True)
class TrialRecord:
    """Status record of a trial: the content of trial.json.

    Attributes:
        name: Name of the trial and of its directory.
        status: PENDING before its start, RUNNING, PAUSED by a scheduler, TERMINATED when done, ERROR or INTERRUPTED.
        seed: Root seed.
        params: Settings that vary between the trials of the experiment, with their values.
        iteration: Number of the last iteration in result.json.
        env_steps: Env steps taken.
        best_return: The highest mean return so far; None before the first.
        judged_by: Metric by which trials are compared: the mean return, or a metric of evaluations.
        best_score: The highest value of the metric `judged_by` so far; None before the first.
        results_bytes: Length of result.json in bytes, up to the row of the last iteration.
        results_sha256: SHA-256 digest of those bytes; "" before the first row.
        stop_reason: The stop criterion that the trial has reached; "" if it has reached none.
        error: Message of the error that ended the trial; the traceback is in error.txt.
        exit_code: Exit code of a command that ends with this error; 0 if there is no error.
        exact_resume: Whether all resumes so far were bit-for-bit exact; None if there were none. Also False if a lost
            rollout worker could not be replaced exactly.
        from_checkpoint: Checkpoint with the initial weights of the trial (warm start), or None.
        network: Description of the network's inputs, line by line; empty before the `Training` is built.
        pid: Id of the process that runs the trial; None if none does.
        host: Machine of that process; "" if there is no process.
        notes: Messages for the user during the trial, such as the reason why the updates are not computed with NumPy.
        output: Path of the data set that the trial has begun to write; None if there is none.
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
    exit_code: int = 0
    exact_resume: bool | None = None
    from_checkpoint: str | None = None
    network: list[str] = field(default_factory=list)
    pid: int | None = None
    host: str = ""
    notes: list[str] = field(default_factory=list)
    output: str | None = None


_RECORD = TypeAdapter(TrialRecord)


class TrialDirectory:
    """Access to the files of one trial: record, spec, error, lock.

    Attributes:
        path: The directory.
    """

    def __init__(self, path: Path) -> None:
        """Initializes access to a directory, which need not exist before the first write."""
        self.path = Path(path)
        self._lock: int | None = None

    @property
    def checkpoints(self) -> Path:
        """Directory of the trial's checkpoints."""
        return self.path / "checkpoints"

    @property
    def failed(self) -> Path:
        """Directory of the checkpoint with the parameters from before a divergence."""
        return self.path / "failed"

    def write_record(self, record: TrialRecord) -> None:
        """Overwrites trial.json with a record."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_file(self.path / TRIAL_FILE, json_with_digest(asdict(record)))

    def read_record(self) -> TrialRecord | None:
        """Loads the record in trial.json; None if the file does not exist.

        Raises:
            RunDamaged: trial.json is not valid, or was altered.
        """
        path = self.path / TRIAL_FILE
        try:
            return _RECORD.validate_python(load_json(read_verified(path)))
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise RunDamaged(f"{path}: cannot parse: {first_mistake(error)}") from error
        except ValueError as error:
            raise RunDamaged(f"{path}: cannot parse: {error}") from error

    def write_spec(self, spec: Mapping[str, Any]) -> None:
        """Overwrites spec.yaml with the trial's spec, with all defaults filled in."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_file(self.path / SPEC_FILE, dump_plain_yaml(dict(spec)).encode())

    def read_spec(self) -> dict[str, Any]:
        """Loads the trial's spec, with defaults filled in, from spec.yaml.

        Raises:
            RunDamaged: spec.yaml is missing or not valid.
        """
        path = self.path / SPEC_FILE
        try:
            spec = load_plain_yaml(read_verified(path).decode())
        except FileNotFoundError:
            raise RunDamaged(f"{path}: does not exist") from None
        except ValueError as error:
            raise RunDamaged(f"{path}: cannot parse: {error}") from error
        if not isinstance(spec, dict):
            raise RunDamaged(f"{path}: not a mapping")
        return spec

    def write_picture(self, policy: str, picture: str) -> None:
        """Overwrites the SVG image that shows a policy."""
        write_file(self.path / PICTURES.replace("*", policy), picture.encode())

    def write_episodes(self, texts: Sequence[str]) -> None:
        """Overwrites episodes.txt, the text of sample episodes."""
        write_file(self.path / EPISODES_FILE, "\n".join(texts).encode())

    def write_error(self, text: str) -> None:
        """Overwrites error.txt with an error's traceback."""
        write_file(self.path / ERROR_FILE, text.encode(errors="replace"))

    def clear_error(self) -> None:
        """Removes error.txt when the trial is resumed."""
        (self.path / ERROR_FILE).unlink(missing_ok=True)

    def claim(self, timeout_s: float = CLAIM_TIMEOUT_S) -> None:
        """Locks the trial's directory for this process; the lock ends with the process, even if it is killed.

        Partial files of an interrupted write are removed, since no other process can be writing them.

        Args:
            timeout_s: Seconds to wait for another process to release the lock.

        Raises:
            UsageError: Another process, or this one, is already running the trial.
            RunDamaged: The lock file is a directory.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        if self.path.resolve() in _claimed_here:
            raise UsageError(f"{self.path}: this process is already running the trial")
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
        with suppress(OSError):  # leftovers that cannot be removed do no harm
            for directory in (self.path, self.checkpoints):
                remove_leftovers(directory)

    def release(self) -> None:
        """Releases the lock on the trial's directory, if this object holds it."""
        if self._lock is not None:
            _claimed_here.discard(self.path.resolve())
            os.close(self._lock)
            self._lock = None

    def is_claimed(self) -> bool:
        """Whether a process holds the lock of the trial's directory; False after a kill."""
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
    """Non-blocking file lock; fails if held by another process, always succeeds on file systems without locks."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
    return True
