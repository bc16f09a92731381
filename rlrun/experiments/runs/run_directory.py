"""Directory of a run: table of trials, lock, and results.

``<runs>/<name>/`` holds ``run.json`` (the table, the command, versions, commits), ``spec.yaml`` (the resolved
experiment), ``driver.log`` and a directory for each trial. The directory is self-contained: it can be moved, and
resuming the run needs no file outside of it.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, TypeAdapter, ValidationError

from rlrun.engine.checkpoint.durable import explained_full_disk, remove_directory, write_file
from rlrun.engine.checkpoint.own_digest import json_with_digest, read_verified, without_digest, yaml_with_digest
from rlrun.engine.checkpoint.plain_json import first_mistake, load_json
from rlrun.engine.checkpoint.plain_yaml import dump_plain_yaml, load_plain_yaml
from rlrun.engine.messages.errors import DiskFull, RunDamaged, SpecError, UsageError
from rlrun.experiments.runs.provenance import commits, machine, own_commit, typed_command
from rlrun.experiments.runs.run_lock import run_lock
from rlrun.experiments.runs.shard import Shard
from rlrun.experiments.runs.trial_result import TrialResult, read_trial
from rlrun.experiments.runs.trial_status import is_complete, is_over
from rlrun.experiments.spec.experiment import Experiment, TrialSpec
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial.results import read_last_row
from rlrun.experiments.trial.trial_directory import (
    CLAIM_TIMEOUT_S,
    TRIAL_FILE,
    TrialDirectory,
    TrialRecord,
    TrialStatus,
)

RUN_FILE = "run.json"
SPEC_FILE = "spec.yaml"
TUNE_DIRECTORY = ".tune"
FORMAT = 1

PACKAGES = ("rlrun", "torch", "ray", "gymnasium", "numpy")
"""Packages whose versions are in run.json."""

Executor = Literal["local", "ray"]
"""Type of the executor of trials: this process ("local") or Ray Tune ("ray")."""


def _is_name(name: str) -> str:
    """Validates that a trial's name is a plain file name inside the run's directory."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{name!r:.80} is not a valid trial name")
    return name


@dataclass(frozen=True)
class RunTable:
    """Content of run.json.

    Attributes:
        experiment: Name of the experiment.
        created: Time of the run's start, ISO 8601 in UTC.
        command: The command as typed, with secret values of `--set` masked.
        executor: Executor with which the run was first started; a resume may use another.
        import_paths: Folders on the import path outside the Python installation, such as the spec file's folder.
        versions: Versions of Python and of important packages.
        trials: Names of the run's trials so far, in order; also the names of their directories.
        copy: Path or URI of a copy of the run's directory, or None.
        from_checkpoint: The checkpoint from whose weights new trials start, or None.
        after: Name of the run in the same folder whose final weights each seed starts from, or None.
        commits: Commits that were checked out in the git repositories of rlrun, of the spec and of the current folder.
        machine: The CPU and the GPUs of the machine that started the run.
        first_stop: Bounds of the stop criteria before the run was first extended; {} if it was never extended.
        shards: Number of shards into which the trials are divided; None if they are not.
        format: Version of the format of run.json.
    """

    experiment: str
    created: str
    command: str
    executor: Executor
    import_paths: tuple[str, ...]
    versions: dict[str, str]
    trials: tuple[Annotated[str, AfterValidator(_is_name)], ...]
    copy: str | None = None
    from_checkpoint: str | None = None
    after: Annotated[str, AfterValidator(_is_name)] | None = None
    commits: dict[str, str] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    first_stop: dict[str, float] = field(default_factory=dict)
    shards: int | None = None
    format: int = FORMAT


_TABLE = TypeAdapter(RunTable)


class RunDirectory:
    """Access to the files of one run, or of one of its shards.

    Attributes:
        path: Absolute path of the run's directory.
        table: Content of run.json.
        shard: The shard that this process trains; None if it trains the whole run. With a shard, all methods for trials
            cover only the shard's trials.
    """

    def __init__(self, path: Path, table: RunTable, shard: Shard | None = None) -> None:
        self.path = path
        self.table = table
        self.shard = shard

    @classmethod
    def create(
        cls,
        runs_dir: Path,
        name: str,
        experiment: Experiment,
        trials: Sequence[TrialSpec],
        executor: Executor,
        from_checkpoint: Path | None = None,
        *,
        after: str | None = None,
    ) -> RunDirectory:
        """Creates the directory of a new run, with all trials PENDING.

        Args:
            runs_dir: The folder of runs; created if missing.
            name: Name of the run; if it exists, ``name-2``, ``name-3``, ... are tried.
            experiment: The experiment.
            trials: The experiment's trials.
            executor: Executor of the trials.
            from_checkpoint: Checkpoint with the initial weights of the trials, or None.
            after: Name of the run in the same folder whose final weights each seed starts from, or None.
        """
        path = new_directory(runs_dir, name)
        return cls.create_in(path, experiment, trials, executor, from_checkpoint, after=after)

    @classmethod
    def create_in(
        cls,
        path: Path,
        experiment: Experiment,
        trials: Sequence[TrialSpec],
        executor: Executor,
        from_checkpoint: Path | None = None,
        *,
        after: str | None = None,
        shards: int | None = None,
    ) -> RunDirectory:
        """Creates a new run in an existing directory, with all trials PENDING.

        The arguments are those of `create`, plus `shards`, the number of shards into which the trials are divided.

        Raises:
            UsageError: Another process has created a run there, or is about to.
        """
        table = RunTable(
            experiment=experiment.name,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            command=typed_command(sys.argv),
            executor=executor,
            import_paths=import_paths(),
            versions=_versions(),
            trials=(),
            from_checkpoint=None if from_checkpoint is None else str(from_checkpoint.absolute()),
            after=after,
            shards=shards,
            commits=own_commit() | commits([Path(experiment.origin).parent, Path.cwd()]),
            machine=machine(),
        )
        run = cls(path, table)
        with run.locked():
            if (path / RUN_FILE).exists():
                raise UsageError(f"{path}: another process has just started this run")
            run.write_spec(experiment)
            run.add(trials)  # writes the table last: a directory with a run.json is complete
        return run

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Opens the directory of an earlier run, which may have been moved.

        Raises:
            UsageError: The directory is not a run, or was created by a newer rlrun.
            RunDamaged: run.json is invalid, altered, or missing while there are trials.
        """
        path = Path(path).absolute()
        try:
            data = load_json(read_verified(path / RUN_FILE))
            if data["format"] > FORMAT:
                raise UsageError(f"{path}: made by a newer rlrun ({data['versions']['rlrun']}); update rlrun")
            table = _TABLE.validate_python(data)
        except (FileNotFoundError, NotADirectoryError):
            if next(path.glob(f"*/{TRIAL_FILE}"), None) is not None:
                raise RunDamaged(f"{path}: {RUN_FILE} is missing, although the directory contains trials") from None
            raise UsageError(f"{path}: not a run, because it has no {RUN_FILE}") from None
        except ValidationError as error:
            raise RunDamaged(f"{path / RUN_FILE}: cannot parse: {first_mistake(error)}") from error
        except (ValueError, TypeError, KeyError) as error:
            raise RunDamaged(f"{path / RUN_FILE}: cannot parse: {error}") from error
        return cls(path, table)

    @property
    def trial_names(self) -> Sequence[str]:
        """Names of the trials of the run, or of its shard, in order."""
        return self.table.trials if self.shard is None else self.shard.share(self.table.trials)

    def add(self, trials: Sequence[TrialSpec]) -> None:
        """Adds PENDING trials to the run's table, atomically: a kill leaves either all of them or none."""
        start = self.table.from_checkpoint
        for trial in trials:
            directory = self.trial_directory(trial.name)
            directory.write_spec(trial.to_data())
            directory.write_record(
                TrialRecord(trial.name, "PENDING", trial.seed, dict(trial.params), from_checkpoint=start)
            )
        names = tuple(trial.name for trial in trials)
        self.write_table(replace(self.table, trials=(*self.table.trials, *names)))

    def experiment(self) -> Experiment:
        """Loads the run's experiment, with all defaults filled in, from spec.yaml.

        Raises:
            RunDamaged: spec.yaml is missing or damaged.
            UsageError: The spec names objects that do not exist in this installation.
        """
        with _naming(self.path / SPEC_FILE):
            data = {self.table.experiment: self.spec()[0]}
            (experiment,) = parse_experiments(data, max_trials=sys.maxsize)  # the number was allowed at the start
            return experiment

    def spec(self) -> tuple[dict[str, Any], str]:
        """Loads the experiment's entry in the run's spec.yaml, and the text of the file without its digest.

        Raises:
            RunDamaged: spec.yaml is missing, not valid, or altered.
        """
        with _naming(self.path / SPEC_FILE):
            text = without_digest(read_verified(self.path / SPEC_FILE).decode())
            data = load_plain_yaml(text)
            entry = data[self.table.experiment]
            if not isinstance(entry, dict):
                raise ValueError(f"{self.table.experiment} is not a mapping")
            return entry, text

    def write_spec(self, experiment: Experiment) -> None:
        """Overwrites spec.yaml with the experiment, with all defaults filled in."""
        data = {experiment.name: experiment.to_data()}
        write_file(self.path / SPEC_FILE, yaml_with_digest(dump_plain_yaml(data)))

    @property
    def log(self) -> Path:
        """Path of the log file with Ray's and Tune's output."""
        return self.path / ("driver.log" if self.shard is None else f"driver-{self.shard.index}.log")

    @property
    def tune(self) -> Path:
        """Path of the directory with Ray Tune's own files."""
        return self.path / TUNE_DIRECTORY

    def trial_directory(self, name: str) -> TrialDirectory:
        """Path of the directory of one of the run's trials."""
        return TrialDirectory(self.path / name)

    def trial(self, name: str) -> TrialSpec:
        """Loads one of the run's trials, with all defaults filled in, from the trial's spec.yaml.

        Raises:
            RunDamaged: The trial's spec.yaml is missing or damaged.
            UsageError: The spec names objects that do not exist in this installation.
        """
        with _naming(self.path / name / SPEC_FILE):
            return TrialSpec.from_data(self.trial_directory(name).read_spec())

    def record(self, name: str) -> TrialRecord:
        """Loads the status record of one of the run's trials.

        Raises:
            RunDamaged: The trial's trial.json is missing or damaged.
        """
        record = self.trial_directory(name).read_record()
        if record is None:
            raise RunDamaged(f"{self.path / name}: trial.json is missing")
        return record

    def restore_records(self) -> None:
        """Recreates missing trial.json files of the run; their trials resume from their newest checkpoints.

        Raises:
            RunDamaged: Some trial.json files are damaged; the message names all of them.
            UsageError: Another process is running the trials.
        """
        missing, damaged = [], []
        for name in self.trial_names:
            try:
                if self.trial_directory(name).read_record() is None:
                    missing.append(name)
            except RunDamaged as error:
                damaged.append(f"{error}; remove the file to resume the trial from its newest checkpoint")
        if damaged:
            raise RunDamaged("\n".join(damaged))
        if not missing:
            return
        with self.locked():
            for name in missing:
                trial, start = self.trial(name), self.table.from_checkpoint
                record = TrialRecord(name, "INTERRUPTED", trial.seed, dict(trial.params), from_checkpoint=start)
                self.trial_directory(name).write_record(record)

    def unfinished(self, *, retry_failed: bool) -> list[str]:
        """Names of the run's trials that have not ended.

        Args:
            retry_failed: Whether failed trials are included.
        """
        ended = is_complete if retry_failed else is_over
        return [name for name in self.trial_names if not ended(self.record(name).status)]

    def results(self) -> list[TrialResult]:
        """Loads the results of all trials of the run.

        The run is assumed not to be running, so a trial whose file says RUNNING counts as killed.
        """
        return [read_trial(self.path / name, self.table.experiment, has_driver=False) for name in self.trial_names]

    def mark(self, name: str, status: TrialStatus, error: str = "") -> None:
        """Overwrites the status in a trial's record on behalf of the trial's process, which could not write it itself.

        Args:
            name: Name of the trial.
            status: New status of the trial.
            error: Error message.
        """
        directory = self.trial_directory(name)
        directory.write_record(replace(self.record(name), status=status, error=error, exit_code=0, pid=None, host=""))
        if error:
            directory.write_error(error)

    def settle(self) -> None:
        """Marks trials as INTERRUPTED if their process ended without recording a status.

        After Ray has stopped, the trials' processes may need a moment to end; this method waits up to `CLAIM_TIMEOUT_S`
        seconds in total. A trial that another process is running is skipped.
        """
        deadline = time.monotonic() + CLAIM_TIMEOUT_S
        for trial in self.results():
            directory = self.trial_directory(trial.name)
            if trial.is_damaged or self.record(trial.name).status != "RUNNING":
                continue
            with suppress(UsageError, RunDamaged, DiskFull):
                directory.claim(timeout_s=max(0.0, deadline - time.monotonic()))
                try:
                    self.mark(trial.name, "INTERRUPTED")
                finally:
                    directory.release()

    def mark_stopped(self, name: str, reason: str) -> None:
        """Records that the scheduler has stopped a trial early, unless the trial's process has already recorded it.

        Args:
            name: Name of the trial.
            reason: The scheduler's reason.
        """
        record = self.record(name)
        if record.status != "TERMINATED":
            directory = self.trial_directory(name)
            directory.write_record(replace(record, status="TERMINATED", stop_reason=reason, pid=None, host=""))

    def discard_if_empty(self) -> None:
        """Removes the run's directory if no trial has a result; a shard leaves it in place for the other shards."""
        if self.shard is None and all(read_last_row(self.path / name) is None for name in self.trial_names):
            remove_directory(self.path)

    def locked(self) -> AbstractContextManager[None]:
        """Context manager that locks the run, or the shard, for this process; a kill releases the lock too.

        Raises:
            UsageError: Another process is already running the run or the shard.
            OutOfResources: The directory is not writable.
        """
        return run_lock(self.path, self.shard)

    def write_table(self, table: RunTable) -> None:
        """Overwrites run.json."""
        self.table = table
        write_file(self.path / RUN_FILE, json_with_digest(asdict(table)))


def default_runs_dir() -> Path:
    """Default parent folder of runs: the environment variable ``$RLRUN_RUNS``, else ``./runs``."""
    return Path(os.environ.get("RLRUN_RUNS") or "runs")


def import_paths() -> tuple[str, ...]:
    """Absolute paths of the folders on Python's import path outside the Python installation, recorded for a resume."""
    installed = tuple({sys.prefix, sys.base_prefix, sys.exec_prefix})
    folders = dict.fromkeys(os.path.abspath(path) for path in sys.path)
    return tuple(path for path in folders if os.path.isdir(path) and not path.startswith(installed))


def follow_import_paths(paths: Sequence[str]) -> None:
    """Appends folders to Python's import path, after the existing ones."""
    sys.path.extend(path for path in paths if path not in sys.path)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Context manager that adds the name of a file to errors about it."""
    try:
        yield
    except SpecError as error:
        raise SpecError([replace(problem, file=str(path)) for problem in error.problems]) from error
    except FileNotFoundError:
        raise RunDamaged(f"{path}: does not exist") from None
    except KeyError as error:
        raise RunDamaged(f"{path}: cannot parse: {error} is missing") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise RunDamaged(f"{path}: cannot parse: {error}") from error


def directory_name(name: str) -> str:
    """Converts the name of a run, which may contain any characters, to the name of the first run's directory.

    Examples:
        >>> directory_name("pole.first"), directory_name("my run/7")
        ('pole.first', 'my-run-7')
    """
    return re.sub(r"[^A-Za-z0-9_.+=-]+", "-", name).strip("-.") or "run"


def make_folder(path: Path, what: str = "runs folder") -> None:
    """Creates a folder, and any missing parent folders.

    Args:
        path: The folder.
        what: Purpose of the folder, for the message.

    Raises:
        UsageError: The folder is a file, or cannot be created.
    """
    try:
        with explained_full_disk(path, lambda: 0):
            path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"cannot use {path} as {what}: {error.strerror}") from error


def new_directory(runs_dir: Path, name: str, is_taken: Callable[[str], bool] = lambda name: False) -> Path:
    """Creates the first directory of ``name``, ``name-2``, ... that does not exist yet; the creation is atomic.

    Args:
        runs_dir: The folder of runs; created if missing.
        name: The name to begin with.
        is_taken: Function that returns whether a name is in use elsewhere.

    Raises:
        UsageError: The folder of runs is a file, or cannot be created.
    """
    make_folder(runs_dir)
    first = runs_dir.absolute() / directory_name(name)
    number = 1
    while True:
        path = first if number == 1 else first.with_name(f"{first.name}-{number}")
        number += 1
        if path.exists() or is_taken(path.name):
            continue
        with suppress(FileExistsError), explained_full_disk(path, lambda: 0):
            path.mkdir()
            return path


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "platform": platform.platform()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed as a package"
    return versions
