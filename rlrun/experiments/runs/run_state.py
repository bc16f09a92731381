"""State of a run, read from its files only: fast even for a thousand trials, and robust against damaged files."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rlrun.engine.messages.errors import RlrunError, RunDamaged
from rlrun.experiments.runs.labels import Labels, read_labels
from rlrun.experiments.runs.run_directory import RUN_FILE, RunDirectory
from rlrun.experiments.runs.run_lock import Driver, drivers_of
from rlrun.experiments.runs.trial_result import TrialResult, changed_at, read_trial
from rlrun.experiments.runs.trial_status import is_over
from rlrun.experiments.spec.stop_config import PLATEAU
from rlrun.experiments.trial.results import RESULT_FILE
from rlrun.experiments.trial.trial_directory import TRIAL_FILE, TrialDirectory


@dataclass(frozen=True)
class RunState:
    """State of a run, as read from its files.

    Attributes:
        path: Directory of the run.
        experiment: Name of the experiment; "" if unknown.
        drivers: Processes that execute the run: one for the whole run, or one for each running shard; () if there is
            none.
        trials: States of the run's trials, in order.
        changed: Last modification of the run's files, in seconds since 1970.
        problem: Error message if run.json is damaged; "" otherwise.
        copy: Path or URI of the run's copy in remote storage; None if there is no copy or its location is unknown.
    """

    path: Path
    experiment: str
    drivers: tuple[Driver, ...]
    trials: tuple[TrialResult, ...]
    changed: float
    problem: str = ""
    copy: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether all trials have ended, so that `rlrun resume` without options would have no trials to run."""
        return all(is_over(trial.status) for trial in self.trials)

    @cached_property
    def stop(self) -> Mapping[str, float]:
        """Stop criteria of the run's trials, by metric; {} if unknown."""
        return _stop(self.trials)

    @cached_property
    def labels(self) -> Labels:
        """Tags and note of the run; empty if the file that holds them is damaged."""
        with suppress(RunDamaged):
            return read_labels(self.path)
        return Labels()

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """Error messages for damaged files of the run itself, one per file."""
        if self.problem:
            return (self.problem,)
        found = []
        for read in (lambda: RunDirectory.open(self.path).spec(), lambda: read_labels(self.path)):
            try:
                read()
            except (RlrunError, OSError) as error:
                found.append(str(error))
        return tuple(found)


def read_run_state(path: Path) -> RunState:
    """Loads the state of a run from its files; damage is recorded in the state instead of raising an exception."""
    path = Path(path).absolute()
    experiment, problem, copy = "", "", None
    try:
        table = RunDirectory.open(path).table
        experiment, names, copy = str(table.experiment), [str(name) for name in table.trials], table.copy
    except (RlrunError, OSError, ValueError, TypeError) as error:
        problem = str(error)
        names = [found.parent.name for found in sorted(path.glob(f"*/{TRIAL_FILE}"))]
    drivers = drivers_of(path)
    trials = tuple(
        read_trial(path / name, experiment, has_driver=any(driver.runs(number) for driver in drivers))
        for number, name in enumerate(names)
    )
    changed = max([changed_at(path / RUN_FILE), *(trial.changed for trial in trials)])
    return RunState(path, experiment, drivers, trials, changed, problem, copy)


def last_change(run: Path) -> float:
    """Last modification time of a run's files, in seconds since 1970, determined without reading the files."""
    files = [run / RUN_FILE, *run.glob(f"*/{TRIAL_FILE}"), *run.glob(f"*/{RESULT_FILE}")]
    return max(map(changed_at, files))


def _stop(trials: tuple[TrialResult, ...]) -> dict[str, float]:
    """Stop criteria in the spec of the first trial that has not ended; all trials have the same criteria."""
    first = next((trial for trial in trials if not is_over(trial.status)), next(iter(trials), None))
    try:
        stop = {} if first is None else TrialDirectory(first.directory).read_spec().get("stop")
        return {str(metric): float(value) for metric, value in (stop or {}).items() if metric != PLATEAU}
    except (RlrunError, OSError, ValueError, TypeError, AttributeError):
        return {}
