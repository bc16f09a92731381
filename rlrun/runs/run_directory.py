"""A run's directory: its table of trials, its lock, its results.

``<runs>/<name>/`` holds ``run.json`` (the table, the command, versions, commits), ``spec.yaml`` (the resolved
experiment), ``driver.log`` and a directory for each trial. Together with what the trials write it is the whole truth of
a run: it can be moved, and nothing outside it is needed to go on.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, TypeAdapter, ValidationError

from rlrun.checkpoint.durable import explained_full_disk, remove_directory, write_file
from rlrun.checkpoint.own_digest import json_with_digest, read_unaltered, without_digest, yaml_with_digest
from rlrun.checkpoint.plain_json import load_json
from rlrun.checkpoint.plain_yaml import dump_plain_yaml, load_plain_yaml
from rlrun.errors import DiskFull, RunDamaged, SpecError, UsageError, did_you_mean
from rlrun.runs.provenance import commits, machine, typed_command
from rlrun.runs.trial_result import TrialResult, read_trial
from rlrun.runs.trial_status import is_complete, is_over
from rlrun.spec.experiment import Experiment, TrialSpec
from rlrun.spec.load import parse_experiments
from rlrun.trial.results import read_last_row
from rlrun.trial.trial_directory import TRIAL_FILE, TrialDirectory, TrialRecord, TrialStatus

RUN_FILE = "run.json"
SPEC_FILE = "spec.yaml"
LOG_FILE = "driver.log"
LOCK_FILE = ".lock"
TUNE_DIRECTORY = ".tune"
FORMAT = 1

PACKAGES = ("rlrun", "torch", "ray", "gymnasium", "numpy")
"""Whose versions run.json notes."""

Executor = Literal["local", "ray"]
"""Where trials run."""


def _is_name(name: str) -> str:
    """Refuses a name that leads out of the run's directory."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{name!r:.80} is no name of a trial")
    return name


@dataclass(frozen=True)
class RunTable:
    """What run.json says.

    Attributes:
        experiment: Name of the experiment.
        created: When the run was started, ISO 8601 in UTC.
        command: What was typed, without what `--set` says of keys, tokens, secrets and passwords.
        executor: Where its trials ran first.
        import_paths: Folders outside the Python installation that were importable, such as that of the spec file.
        versions: Versions of Python and of the packages that matter.
        trials: Names of its trials so far, in order; also the names of their directories.
        copy: Where a copy of the run's directory is kept, or None.
        from_checkpoint: The checkpoint whose weights new trials start from, or None.
        commits: Commits that were checked out in the git repositories of the spec and of the current folder.
        machine: The CPU and the GPUs of the machine that started it.
        format: Version of this format.
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
    commits: dict[str, str] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT


_TABLE = TypeAdapter(RunTable)


class RunDirectory:
    """Reads and writes what belongs to one run.

    Attributes:
        path: The directory, absolute.
        table: What run.json says.
    """

    def __init__(self, path: Path, table: RunTable) -> None:
        self.path = path
        self.table = table

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
        is_taken: Callable[[str], bool] = lambda name: False,
    ) -> RunDirectory:
        """Makes the directory of a new run, with every trial PENDING in it.

        Args:
            runs_dir: The folder that holds the runs; made if need be.
            name: Name of the run; a run of that name that exists gets company: ``name-2``, ``name-3``, ...
            experiment: What is run.
            trials: Its trials.
            executor: Where they will run.
            from_checkpoint: The checkpoint whose weights they start from, or None.
            is_taken: Whether a run has the name elsewhere, in a storage.
        """
        path = _new_directory(runs_dir.absolute(), name, is_taken)
        table = RunTable(
            experiment=experiment.name,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            command=typed_command(sys.argv),
            executor=executor,
            import_paths=import_paths(),
            versions=_versions(),
            trials=(),
            from_checkpoint=None if from_checkpoint is None else str(from_checkpoint.absolute()),
            commits=commits([Path(experiment.origin).parent, Path.cwd()]),
            machine=machine(),
        )
        write_file(path / SPEC_FILE, yaml_with_digest(dump_plain_yaml({experiment.name: experiment.to_data()})))
        run = cls(path, table)
        run.add(trials)  # which writes the table last: a directory with a run.json is a whole run
        return run

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Opens the directory of an earlier run, wherever it has been moved to.

        Raises:
            UsageError: If it is not a run, or was made by a newer rlrun.
            RunDamaged: If its run.json cannot be understood, was altered, or is gone from beside its trials.
        """
        path = Path(path).absolute()
        try:
            data = load_json(read_unaltered(path / RUN_FILE))
            if data["format"] > FORMAT:
                raise UsageError(f"{path}: made by a newer rlrun ({data['versions']['rlrun']}); update rlrun")
            table = _TABLE.validate_python(data)
        except (FileNotFoundError, NotADirectoryError):
            if next(path.glob(f"*/{TRIAL_FILE}"), None) is not None:
                raise RunDamaged(f"{path}: its {RUN_FILE} is gone, and its trials are here") from None
            raise UsageError(f"{path}: not a run: there is no {RUN_FILE}") from None
        except ValidationError as error:
            raise RunDamaged(f"{path / RUN_FILE}: cannot be understood: {_first_mistake(error)}") from error
        except (ValueError, TypeError, KeyError) as error:
            raise RunDamaged(f"{path / RUN_FILE}: cannot be understood: {error}") from error
        return cls(path, table)

    def add(self, trials: Sequence[TrialSpec]) -> None:
        """Adds trials to the table, PENDING; all of them or, after a kill, none."""
        start = self.table.from_checkpoint
        for trial in trials:
            directory = self.trial_directory(trial.name)
            directory.write_spec(trial.to_data())
            directory.write_record(
                TrialRecord(trial.name, "PENDING", trial.seed, dict(trial.params), from_checkpoint=start)
            )
        names = tuple(trial.name for trial in trials)
        self._write_table(replace(self.table, trials=(*self.table.trials, *names)))

    def note_copy(self, uri: str) -> None:
        """Notes where a copy of the directory is kept.

        Args:
            uri: The copy's own path or URI.
        """
        self._write_table(replace(self.table, copy=uri))

    def experiment(self) -> Experiment:
        """Returns the experiment as it was resolved.

        Raises:
            RunDamaged: If spec.yaml is missing or damaged.
            UsageError: If it names what is not here any more.
        """
        with _naming(self.path / SPEC_FILE):
            data = {self.table.experiment: self.spec()[0]}
            (experiment,) = parse_experiments(data, max_trials=sys.maxsize)  # it was allowed when the run began
            return experiment

    def spec(self) -> tuple[dict[str, Any], str]:
        """Returns the entry of spec.yaml, and the file's text without its digest.

        Raises:
            RunDamaged: If spec.yaml is missing, cannot be understood or was altered.
        """
        with _naming(self.path / SPEC_FILE):
            text = without_digest(read_unaltered(self.path / SPEC_FILE).decode())
            data = load_plain_yaml(text)
            entry = data[self.table.experiment]
            if not isinstance(entry, dict):
                raise ValueError(f"{self.table.experiment} is no mapping")
            return entry, text

    def extend(self, stop: Mapping[str, float]) -> None:
        """Raises stop criteria of the experiment and of every trial; trials that these had ended go on.

        Args:
            stop: New values by metric.

        Raises:
            UsageError: If the experiment does not stop by such a metric, or not later.
        """
        experiment = self.experiment()
        for metric, value in stop.items():
            if metric not in experiment.stop:
                hint = did_you_mean(metric, experiment.stop)
                raise UsageError(f"the run does not stop by {metric}{hint}; it stops by {', '.join(experiment.stop)}")
            if value <= experiment.stop[metric]:
                raise UsageError(
                    f"{metric} is {experiment.stop[metric]:g} already; extend it to more, not to {value:g}"
                )
        changed = experiment.replace(stop={**experiment.stop, **stop})
        for name in self.table.trials:
            trial, record = self.trial(name), self.record(name)
            self.trial_directory(name).write_spec(trial.replace(stop={**trial.stop, **stop}).to_data())
            if record.status == "TERMINATED" and record.stop_reason.partition(" ")[0] in stop:
                self.trial_directory(name).write_record(replace(record, status="INTERRUPTED", stop_reason=""))
        # Last, so that the same can be asked for again if this is interrupted.
        write_file(self.path / SPEC_FILE, yaml_with_digest(dump_plain_yaml({experiment.name: changed.to_data()})))

    @property
    def log(self) -> Path:
        """Where Ray's and Tune's own output goes."""
        return self.path / LOG_FILE

    @property
    def tune(self) -> Path:
        """Where Tune keeps what only Tune reads."""
        return self.path / TUNE_DIRECTORY

    def trial_directory(self, name: str) -> TrialDirectory:
        """Returns the directory of one of its trials."""
        return TrialDirectory(self.path / name)

    def trial(self, name: str) -> TrialSpec:
        """Returns one of its trials as it was resolved.

        Raises:
            RunDamaged: If the trial's spec.yaml is missing or damaged.
            UsageError: If it names what is not here any more.
        """
        with _naming(self.path / name / SPEC_FILE):
            return TrialSpec.from_data(self.trial_directory(name).read_spec())

    def record(self, name: str) -> TrialRecord:
        """Returns how one of its trials stands.

        Raises:
            RunDamaged: If its trial.json is gone or damaged.
        """
        record = self.trial_directory(name).read_record()
        if record is None:
            raise RunDamaged(f"{self.path / name}: there is no trial.json")
        return record

    def mend_records(self) -> None:
        """Makes trial.json anew where it is gone: such a trial goes on from its newest checkpoint.

        Raises:
            RunDamaged: If one is damaged, with all that are.
            UsageError: If another process runs the trials.
        """
        gone, damaged = [], []
        for name in self.table.trials:
            try:
                if self.trial_directory(name).read_record() is None:
                    gone.append(name)
            except RunDamaged as error:
                damaged.append(f"{error}; remove the file, and its trial goes on from its newest checkpoint")
        if damaged:
            raise RunDamaged("\n".join(damaged))
        if not gone:
            return
        with self.locked():
            for name in gone:
                trial, start = self.trial(name), self.table.from_checkpoint
                record = TrialRecord(name, "INTERRUPTED", trial.seed, dict(trial.params), from_checkpoint=start)
                self.trial_directory(name).write_record(record)

    def unfinished(self, *, retry_failed: bool) -> list[str]:
        """Returns the names of the trials that have something left to do.

        Args:
            retry_failed: Whether those that failed are tried again.
        """
        ended = is_complete if retry_failed else is_over
        return [name for name in self.table.trials if not ended(self.record(name).status)]

    def results(self) -> list[TrialResult]:
        """Returns all of its trials as they stand while no process runs them."""
        return [read_trial(self.path / name, self.table.experiment, has_driver=False) for name in self.table.trials]

    def mark(self, name: str, status: TrialStatus, error: str = "") -> None:
        """Writes down the end of a trial whose own process could not.

        Args:
            name: The trial.
            status: Its status from now on.
            error: What went wrong.
        """
        directory = self.trial_directory(name)
        directory.write_record(replace(self.record(name), status=status, error=error, pid=None, host=""))
        if error:
            directory.write_error(error)

    def settle(self) -> None:
        """Writes down that trials have ended whose processes were ended before they could say so themselves.

        A process that was left alone by the end of its Ray may take a moment to end. A trial that somebody else runs
        is left as it is.
        """
        for trial in self.results():
            directory = self.trial_directory(trial.name)
            if trial.is_damaged or self.record(trial.name).status != "RUNNING":
                continue
            with suppress(UsageError, RunDamaged, DiskFull):
                directory.claim()
                try:
                    self.mark(trial.name, "INTERRUPTED")
                finally:
                    directory.release()

    def mark_stopped(self, name: str, reason: str) -> None:
        """Writes down that a scheduler has ended a trial, if the trial's own process could not.

        Args:
            name: The trial.
            reason: Why it was ended.
        """
        record = self.record(name)
        if record.status != "TERMINATED":
            directory = self.trial_directory(name)
            directory.write_record(replace(record, status="TERMINATED", stop_reason=reason, pid=None, host=""))

    def discard_if_unbegun(self) -> None:
        """Removes the directory if none of its trials has ever come to a result."""
        if all(read_last_row(self.path / name) is None for name in self.table.trials):
            remove_directory(self.path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Makes this process the only one that runs the trials; however it ends, even by a kill, the lock ends with it.

        Raises:
            UsageError: If another process runs them already.
            OutOfResources: If nothing can be written there.
        """
        with explained_full_disk(self.path / LOCK_FILE, lambda: 0):
            lock = os.open(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(lock, 20, 0).decode() or "another process"
                raise UsageError(f"{self.path}: process {holder} is running it") from None
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(lock)

    def _write_table(self, table: RunTable) -> None:
        self.table = table
        write_file(self.path / RUN_FILE, json_with_digest(asdict(table)))


def default_runs_dir() -> Path:
    """Returns the folder that holds the runs unless another is named: ``$RLRUN_RUNS`` or ``./runs``."""
    return Path(os.environ.get("RLRUN_RUNS") or "runs")


def import_paths() -> tuple[str, ...]:
    """Returns the importable folders outside the Python installation, absolute; a resumed run wants them again."""
    installed = tuple({sys.prefix, sys.base_prefix, sys.exec_prefix})
    folders = dict.fromkeys(os.path.abspath(path) for path in sys.path)
    return tuple(path for path in folders if os.path.isdir(path) and not path.startswith(installed))


def follow_import_paths(paths: Sequence[str]) -> None:
    """Makes folders importable that are not yet, behind those that are."""
    sys.path.extend(path for path in paths if path not in sys.path)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Puts the name of a file to whatever is wrong with it."""
    try:
        yield
    except SpecError as error:
        raise SpecError([replace(problem, file=str(path)) for problem in error.problems]) from error
    except FileNotFoundError:
        raise RunDamaged(f"{path}: does not exist") from None
    except KeyError as error:
        raise RunDamaged(f"{path}: cannot be understood: there is no {error}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise RunDamaged(f"{path}: cannot be understood: {error}") from error


def _first_mistake(error: ValidationError) -> str:
    mistake = error.errors()[0]
    return f"{'.'.join(map(str, mistake['loc']))}: {mistake['msg']}"


def _new_directory(runs_dir: Path, name: str, is_taken: Callable[[str], bool]) -> Path:
    """Makes ``name``, ``name-2``, ... whichever is the first that is free; making a directory is atomic.

    Raises:
        UsageError: If the runs folder is a file, or cannot be made where it is said to be.
    """
    try:
        with explained_full_disk(runs_dir, lambda: 0):
            runs_dir.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, FileNotFoundError) as error:
        raise UsageError(f"{runs_dir} cannot be the folder of runs: {error.strerror}") from error
    plain = re.sub(r"[^A-Za-z0-9_.+=-]+", "-", name).strip("-.") or "run"
    number = 1
    while True:
        path = runs_dir / (plain if number == 1 else f"{plain}-{number}")
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
