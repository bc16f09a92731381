"""How a run stands, from its files alone: cheap for a thousand trials, and undeterred by a file that is damaged."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rlrun.errors import RlrunError
from rlrun.runs.run_directory import LOCK_FILE, RUN_FILE, RunDirectory
from rlrun.runs.trial_result import TrialResult, changed_at, read_trial
from rlrun.runs.trial_status import is_over
from rlrun.trial.results import RESULT_FILE
from rlrun.trial.trial_directory import TRIAL_FILE, TrialDirectory


@dataclass(frozen=True)
class RunState:
    """One run as its files tell it.

    Attributes:
        path: Its directory.
        experiment: Name of its experiment, "" where that is unknown.
        driver: The process that runs it, 0 if its number is unknown; None if none does.
        trials: Its trials, in order.
        changed: When its files were last written, in seconds since 1970.
        problem: Why its run.json cannot be understood, "" if it can.
    """

    path: Path
    experiment: str
    driver: int | None
    trials: tuple[TrialResult, ...]
    changed: float
    problem: str = ""

    @property
    def is_over(self) -> bool:
        """Whether a plain `rlrun resume` would find nothing to do."""
        return all(is_over(trial.status) for trial in self.trials)

    @cached_property
    def stop(self) -> Mapping[str, float]:
        """Metric -> the value at which its trials stop, {} where that is unknown."""
        return _stop(self.trials)

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """What of the run's own files is damaged, a text for each."""
        if self.problem:
            return (self.problem,)
        try:
            RunDirectory.open(self.path).spec()
        except (RlrunError, OSError) as error:
            return (str(error),)
        return ()


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
    trials = tuple(read_trial(path / name, experiment, has_driver=driver is not None) for name in names)
    changed = max([changed_at(path / RUN_FILE), *(trial.changed for trial in trials)])
    return RunState(path, experiment, driver, trials, changed, problem)


def last_change(run: Path) -> float:
    """Returns when files of a run were last written, in seconds since 1970, without reading any."""
    files = [run / RUN_FILE, *run.glob(f"*/{TRIAL_FILE}"), *run.glob(f"*/{RESULT_FILE}")]
    return max(map(changed_at, files))


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


def _stop(trials: tuple[TrialResult, ...]) -> dict[str, float]:
    """Returns where trials stop, by the spec of the first that has not ended; all have the same."""
    first = next((trial for trial in trials if not is_over(trial.status)), next(iter(trials), None))
    try:
        stop = {} if first is None else TrialDirectory(first.directory).read_spec().get("stop")
        return {str(metric): float(value) for metric, value in (stop or {}).items()}
    except (RlrunError, OSError, ValueError, TypeError, AttributeError):
        return {}
