"""How a run stands, from its files alone: cheap for a thousand trials, and undeterred by a file that is damaged.

Of each trial that is trial.json, the last row of result.json and two lines of spec.yaml. Nothing is imported that the
spec names, and nothing is written.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from rlrun.errors import RlrunError, UsageError
from rlrun.runs.run_directory import LOCK_FILE, RUN_FILE, RunDirectory
from rlrun.trial.results import RESULT_FILE, RETURN, Row, best_return, read_last_row, read_results
from rlrun.trial.trial_directory import SPEC_FILE, TRIAL_FILE, TrialDirectory, TrialRecord, TrialStatus

KILLED = "KILLED"
"""trial.json says that the trial has begun and not ended, and no process runs it: `rlrun resume` goes on with it."""
DAMAGED = "DAMAGED"
"""trial.json is missing or cannot be understood."""

OVER = ("TERMINATED", "ERROR")
"""What a trial is that a plain `rlrun resume` leaves as it is."""

SMALL_BYTES = 500_000
"""A result.json up to this size is read as a whole to find the best return of a trial that runs."""

_NUMBER_LINE = re.compile(r"^(configuration|population): (\d+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class TrialState:
    """One trial as its files tell it.

    Attributes:
        name: Its name.
        status: As trial.json says it, PENDING while it waits to go on after a resume, KILLED, or DAMAGED.
        seed: Its root seed.
        params: What varies, with the values it has now.
        configuration: Number of its configuration, None where that is unknown.
        population: Seed of its population, None for a trial on its own.
        place: The host:pid that runs it, "" if none does.
        env_steps: Env steps it has taken.
        last_row: Its newest result, None before the first.
        best_return: Its best mean return, None before any. While a long trial runs: the best at its last checkpoint, or
            the newest if that is better.
        error: What went wrong, or what is damaged; "" if nothing is.
        stop_reason: Why it is done, "" before.
        changed: When its files were last written, in seconds since 1970; 0 if there are none.
    """

    name: str
    status: str
    seed: int | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    configuration: int | None = None
    population: int | None = None
    place: str = ""
    env_steps: int = 0
    last_row: Row | None = None
    best_return: float | None = None
    error: str = ""
    stop_reason: str = ""
    changed: float = 0.0

    @property
    def is_damaged(self) -> bool:
        """Whether its files cannot be understood; `error` says why."""
        return self.status == DAMAGED


@dataclass(frozen=True)
class RunState:
    """One run as its files tell it.

    Attributes:
        path: Its directory.
        experiment: Name of its experiment, "" where that is unknown.
        driver: The process that runs it, 0 if its number is unknown; None if none does.
        stop: Metric -> the value at which its trials stop, {} where that is unknown.
        trials: Its trials, in order.
        changed: When its files were last written, in seconds since 1970.
        problem: Why its run.json cannot be understood, "" if it can.
    """

    path: Path
    experiment: str
    driver: int | None
    stop: Mapping[str, float]
    trials: tuple[TrialState, ...]
    changed: float
    problem: str = ""

    @property
    def is_over(self) -> bool:
        """Whether a plain `rlrun resume` would find nothing to do."""
        return all(trial.status in OVER for trial in self.trials)


def read_run_state(path: Path) -> RunState:
    """Returns how a run stands. What is damaged is told in the state; nothing is raised for it."""
    path = Path(path).absolute()
    experiment, problem = "", ""
    try:
        table = RunDirectory.open(path).table
        experiment, names = str(table.experiment), [str(name) for name in table.trials]
    except (RlrunError, OSError, ValueError, TypeError) as error:
        problem = str(error)
        names = [found.parent.name for found in sorted(path.glob(f"*/{TRIAL_FILE}"))]
    driver = driver_of(path)
    trials = tuple(_read_trial(path / name, has_driver=driver is not None) for name in names)
    changed = max([_changed(path / RUN_FILE), *(trial.changed for trial in trials)])
    return RunState(path, experiment, driver, _stop(path, trials), trials, changed, problem)


def driver_of(run: Path) -> int | None:
    """Returns the process that runs a run, 0 if it runs but has no number here; None if there is none."""
    try:
        lock = os.open(run / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        number = os.pread(lock, 20, 0).decode(errors="replace").strip()
        return int(number) if number.isdecimal() else 0
    except OSError:  # a file system without locks
        return None
    finally:
        os.close(lock)
    return None


def _read_trial(path: Path, *, has_driver: bool) -> TrialState:
    directory = TrialDirectory(path)
    changed = max(_changed(path / TRIAL_FILE), _changed(path / RESULT_FILE))
    numbers = _numbers(path)
    try:
        record = directory.read_record()
        if record is None:
            raise UsageError(f"{path}: there is no {TRIAL_FILE}")
        _check(record, path)
        row = read_last_row(path)
        return TrialState(
            name=path.name,
            status=_status(record, directory, has_driver=has_driver),
            seed=record.seed,
            params=record.params,
            place=f"{record.host}:{record.pid}" if record.pid is not None else "",
            env_steps=int((row or {}).get("env_steps") or record.env_steps),
            last_row=row,
            best_return=_best_return(path, record, row),
            error=record.error,
            stop_reason=record.stop_reason,
            changed=changed,
            configuration=numbers.get("configuration"),
            population=numbers.get("population"),
        )
    except (RlrunError, OSError, ValueError, TypeError) as error:
        configuration, population = numbers.get("configuration"), numbers.get("population")
        return TrialState(
            path.name, DAMAGED, error=str(error), changed=changed, configuration=configuration, population=population
        )


def _check(record: TrialRecord, path: Path) -> None:
    """Refuses what is JSON and yet no record.

    Raises:
        UsageError: If a field has a value that it cannot have.
    """
    kinds = {"seed": int, "params": dict, "iteration": int, "env_steps": int, "error": str}
    wrong = [name for name, kind in kinds.items() if not isinstance(getattr(record, name), kind)]
    if record.status not in get_args(TrialStatus):
        wrong.append("status")
    if wrong:
        raise UsageError(f"{path / TRIAL_FILE}: cannot be understood: {', '.join(wrong)}")


def _status(record: TrialRecord, directory: TrialDirectory, *, has_driver: bool) -> str:
    """Returns the status with what is known of the processes: the driver's, and the trial's if it runs on this machine.

    A driver that goes on with a run leaves the records of trials that wait for a place as it found them.
    """
    if record.status == "INTERRUPTED" and has_driver:
        return "PENDING"
    if record.status == "PAUSED" and not has_driver:
        return KILLED
    if record.status != "RUNNING" or _is_claimed(directory):
        return record.status
    if not has_driver:
        return KILLED
    return "PENDING" if record.host in ("", platform.node()) else "RUNNING"


def _is_claimed(directory: TrialDirectory) -> bool:
    try:
        return directory.is_claimed()
    except PermissionError:  # another user's run
        return False


def _best_return(path: Path, record: TrialRecord, row: Row | None) -> float | None:
    """Returns the best mean return; trial.json knows it, but for what came after it was written."""
    if record.best_return is None and record.status != "RUNNING":  # there is none, or an earlier rlrun did not note it
        return best_return(read_results(path))
    if record.status == "RUNNING" and _size(path / RESULT_FILE) <= SMALL_BYTES:
        return best_return(read_results(path))
    return best_return([{RETURN: record.best_return}, row or {}])


def _numbers(path: Path) -> dict[str, int]:
    """Returns the numbers of configuration and population from spec.yaml, of which only these lines are read."""
    try:
        text = (path / SPEC_FILE).read_text()
    except (OSError, ValueError):
        return {}
    return {match[1]: int(match[2]) for match in _NUMBER_LINE.finditer(text)}


def _stop(run: Path, trials: tuple[TrialState, ...]) -> dict[str, float]:
    """Returns where trials stop, by the spec of the first that has not ended; all have the same."""
    first = next((trial for trial in trials if trial.status not in OVER), next(iter(trials), None))
    try:
        stop = {} if first is None else TrialDirectory(run / first.name).read_spec().get("stop")
        return {str(metric): float(value) for metric, value in (stop or {}).items()}
    except (RlrunError, OSError, ValueError, TypeError, AttributeError):
        return {}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
