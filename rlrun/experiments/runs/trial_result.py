"""State of one trial of a run, read from its files: status, results, checkpoints.

A run may have a thousand trials. Only trial.json, the last row of result.json and two lines of spec.yaml are therefore
read immediately; everything else is read on first access and cached. Nothing that a spec names is imported, and nothing
is written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.checkpoint.own_digest import read_verified
from rlrun.engine.checkpoint.store import CheckpointStore, Scan
from rlrun.engine.data.results import Results
from rlrun.engine.envs.step_marks import stepped_env
from rlrun.engine.messages.errors import RlrunError, RunDamaged
from rlrun.engine.settings.metric import Mode
from rlrun.experiments.runs.trial_status import Status, is_complete, status_of
from rlrun.experiments.spec.tuning import SchedulerConfig
from rlrun.experiments.trial.checked_results import CheckedResults, check_results
from rlrun.experiments.trial.results import (
    RESULT_FILE,
    RETURN,
    Row,
    best_value,
    iterate_results,
    read_last_row,
)
from rlrun.experiments.trial.resumption import ending_in_words
from rlrun.experiments.trial.trial_directory import SPEC_FILE, TRIAL_FILE, TrialDirectory, TrialRecord

Floats = NDArray[np.float64]

LONGEST_ERROR = 200
"""Maximum characters of an error in one line."""

SMALL_BYTES = 500_000
"""Maximum size of a result.json that is read completely to find the best return of a running trial."""

_MAPPING = re.compile(r"(#.*\n|\s)*\w+:")
_NUMBER_LINE = re.compile(r"^(configuration|population): (\d+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Columns:
    """Columns of metric values from a trial's result rows.

    Attributes:
        values: Values of each metric by row, [N]; NaN where a value is missing.
        reported: Names of all metrics in the rows.
        problem: Error message if some rows could not be read; "" otherwise.
    """

    values: Mapping[str, Floats]
    reported: tuple[str, ...]
    problem: str = ""


@dataclass(frozen=True)
class TrialResult:
    """State of one trial of a run, as read from its files.

    Attributes:
        name: Name of the trial.
        directory: Directory of the trial.
        experiment: Name of the experiment; "" if unknown.
        status: TERMINATED (complete), ERROR (failed), PENDING, RUNNING, PAUSED, INTERRUPTED, KILLED or DAMAGED.
        seed: Root seed; None if the trial's files are damaged.
        params: Current values of the settings that vary between the experiment's trials.
        configuration: Number of the trial's configuration; None if unknown.
        population: Seed of the trial's population; None if the trial is in no population.
        stop_reason: The stop criterion that the trial has reached; "" if it has reached none.
        error: Error message, with the user's own traceback if user code raised an exception, or a description of
            damaged files; "" if there is neither.
        ended_in: Message that names the env and episode that a KILLED trial was stepping; "" if it was not stepping an
            env.
        network: Description of the network's inputs, as lines of text; () if unknown.
        place: Process of the trial as host:pid; "" if it is not running.
        env_steps: Env steps taken.
        best_return: Best mean return of the trial; None if it has none yet. While a long trial runs, this is the best
            return up to its last checkpoint, or the newest return if that is better.
        judged_by: Metric by which trials are compared.
        best_score: Best value of the metric `judged_by`; None if it has none yet. While the trial runs, determined like
            `best_return`.
        last_result: Newest result row; {} before the first.
        changed: Last modification of the trial's files, in seconds since 1970; 0 if there are no files.
        metrics: Names of the metrics to keep when result rows are read.
        record: Content of trial.json; None if it is damaged.
    """

    name: str
    directory: Path
    experiment: str
    status: Status
    seed: int | None = None
    params: dict[str, Any] = field(default_factory=dict)
    configuration: int | None = None
    population: int | None = None
    stop_reason: str = ""
    error: str = ""
    ended_in: str = ""
    network: tuple[str, ...] = ()
    place: str = ""
    env_steps: int = 0
    best_return: float | None = None
    judged_by: str = RETURN
    best_score: float | None = None
    last_result: Row = field(default_factory=dict)
    changed: float = 0.0
    metrics: tuple[str, ...] = ()
    record: TrialRecord | None = None

    @property
    def is_damaged(self) -> bool:
        """Whether the trial's trial.json is invalid; the reason is in `error`."""
        return self.status == "DAMAGED"

    @property
    def is_stopped_early(self) -> bool:
        """Whether the trial was stopped early by a scheduler, a hook or a plateau of a metric.

        In that case, `stop_reason` begins with the name of whatever stopped the trial, for example ``asha: ...``.
        """
        return is_complete(self.status) and self.stop_reason.partition(" ")[0].endswith(":")

    @property
    def early_end(self) -> str:
        """Message with the stop reason if a hook or a metric's plateau stopped the trial early; "" otherwise."""
        by_scheduler = self.stop_reason.partition(":")[0] in SchedulerConfig.kinds()
        return f"{self.name} was stopped: {self.stop_reason}" if self.is_stopped_early and not by_scheduler else ""

    @property
    def shown_status(self) -> str:
        """Status of the trial as shown in tables, where "stopped" means early stopping."""
        return "stopped" if self.is_stopped_early else self.status.lower()

    @property
    def problems(self) -> tuple[str, ...]:
        """Error messages for damaged files of the trial, except checkpoints, one per file."""
        return tuple(filter(None, [*self._small_problems, self.columns.problem]))

    @property
    def obvious_problems(self) -> tuple[str, ...]:
        """Error messages for damage to the trial's files that can be found without reading all result rows."""
        return tuple(filter(None, [*self._small_problems, self._missing_rows()]))

    @property
    def _small_problems(self) -> tuple[str, ...]:
        return (self.error,) if self.is_damaged else (_problem_of_spec(self.directory),)

    def _missing_rows(self) -> str:
        """Error message if result.json ends before the last row in trial.json; "" otherwise."""
        last, file = self.last_result.get("iteration"), self.directory / RESULT_FILE
        if self.record is None or self.status == "RUNNING" or self.record.iteration == 0:
            return ""
        if isinstance(last, int) and last >= self.record.iteration and _size(file) >= self.record.results_bytes:
            return ""
        ends = f"ends with iteration {last}" if isinstance(last, int) else "has no rows"
        return f"{file}: {ends}, but trial.json has iteration {self.record.iteration}"

    @property
    def short_error(self) -> str:
        """Last line of the trial's error message; "" if there is no error."""
        text = self.error.strip().rpartition("\n")[2].strip()
        return text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}…"

    # Checkpoints.

    @property
    def checkpoint(self) -> Path | None:
        """Newest valid checkpoint of the trial, or None."""
        return self.checkpoints.newest

    @cached_property
    def checkpoints(self) -> Scan:
        """Pair of the trial's newest valid checkpoint and the newer checkpoints that are not usable."""
        return self._store.scan()

    @cached_property
    def best_checkpoint(self) -> Path | None:
        """Best checkpoint of the trial by the spec's metric ``checkpoint.best``; None if no checkpoint has a value.

        Raises:
            RunDamaged: The trial's spec.yaml is missing or damaged.
        """
        return self._store.best(self.best_metric)

    @property
    def best_metric(self) -> str | None:
        """Name of the metric that selects the trial's best checkpoint: ``checkpoint.best`` in the spec.

        Raises:
            RunDamaged: The trial's spec.yaml is missing or damaged.
        """
        try:
            metric: str | None = TrialDirectory(self.directory).read_spec()["checkpoint"]["best"]
        except (KeyError, TypeError) as error:
            raise RunDamaged(f"{self.directory / SPEC_FILE}: cannot parse: checkpoint.best is missing") from error
        return metric

    def best_checkpoint_by(self, metric: str) -> Path | None:
        """The trial's checkpoint with the highest value of a metric, possibly damaged; None if none has a value."""
        return self._store.best(metric)

    @property
    def _store(self) -> CheckpointStore:
        return CheckpointStore(TrialDirectory(self.directory).checkpoints)

    # Results.

    def results(self) -> Results:
        """Result rows of the trial, oldest first; damaged or missing rows are restored from checkpoints if possible."""
        return Results(self._checked().rows)

    @cached_property
    def columns(self) -> Columns:
        """Columns of the metrics listed in `metrics`; other metrics are not loaded, to save memory in large runs."""
        try:
            checked = self._checked(self.metrics)
        except OSError as error:
            none = dict.fromkeys(self.metrics, np.empty(0))
            return Columns(none, (), f"{self.name}: cannot read its results: {error}")
        rows = checked.rows
        values = {metric: np.array([_number(row.get(metric)) for row in rows], np.float64) for metric in self.metrics}
        return Columns(values, checked.names, "; ".join(checked.damage))

    def _checked(self, metrics: Collection[str] | None = None) -> CheckedResults:
        """Loads and checks the result rows; in a running trial, missing rows do not count as damage."""
        if self.record is None or self.status == "RUNNING":
            return check_results(self.directory, 0, metrics=metrics)
        known = self._store.results()
        return check_results(self.directory, self.record.iteration, known=known, record=self.record, metrics=metrics)

    def points(self, metric: str, axis: str) -> tuple[Floats, Floats]:
        """Points (x, y) at which the trial reported a metric, as two arrays [N] in ascending order of x.

        Args:
            metric: One of `metrics`.
            axis: One of `metrics`, for the x axis.
        """
        none = np.empty(0)
        xs, ys = self.columns.values.get(axis, none), self.columns.values.get(metric, none)
        if len(xs) != len(ys):
            return none, none
        there = np.isfinite(xs) & np.isfinite(ys)
        xs, ys = xs[there], ys[there]
        order = np.argsort(xs, kind="stable")
        return xs[order], ys[order]

    def final(self, metric: str) -> float | None:
        """Last value that the trial reported for a metric (one of `metrics`); None if it reported none."""
        values = self._finite(metric)
        return float(values[-1]) if len(values) else None

    def best(self, metric: str, mode: Mode = "max") -> float | None:
        """Best value that the trial reported for a metric (one of `metrics`); None if it reported none."""
        values = self._finite(metric)
        return None if not len(values) else float(values.max() if mode == "max" else values.min())

    def _finite(self, metric: str) -> Floats:
        values = self.columns.values.get(metric, np.empty(0))
        return values[np.isfinite(values)]


def read_trial(path: Path, experiment: str, *, has_driver: bool) -> TrialResult:
    """Loads the state of a trial from its files; damage is recorded in the state instead of raising an exception.

    Args:
        path: Directory of the trial.
        experiment: Name of the experiment.
        has_driver: Whether a process is executing the trial's run.
    """
    directory = TrialDirectory(path)
    changed = max(changed_at(path / TRIAL_FILE), changed_at(path / RESULT_FILE))
    damaged = TrialResult(path.name, path, experiment, "DAMAGED", changed=changed, **_numbers(path))
    try:
        record = directory.read_record()
        if record is None:
            raise RunDamaged(f"{path}: {TRIAL_FILE} is missing")
        row = read_last_row(path) or {}
        status = status_of(record, is_claimed=_is_claimed(directory, record), has_driver=has_driver)
        is_by_return = record.judged_by == RETURN
        best_return = _best(path, record, row, RETURN, record.best_return)
        return replace(
            damaged,
            status=status,
            seed=record.seed,
            params=record.params,
            stop_reason=record.stop_reason,
            error=record.error,
            ended_in=_ended_in(path) if status == "KILLED" else "",
            network=tuple(record.network),
            place=f"{record.host}:{record.pid}" if record.pid is not None else "",
            env_steps=int(row.get("env_steps") or record.env_steps),
            best_return=best_return,
            judged_by=record.judged_by,
            best_score=best_return if is_by_return else _best(path, record, row, record.judged_by, record.best_score),
            last_result=row,
            record=record,
        )
    except (RlrunError, OSError, ValueError, TypeError) as error:
        return replace(damaged, error=str(error))


def _is_claimed(directory: TrialDirectory, record: TrialRecord) -> bool:
    """Whether a process runs a trial; always False for records with another status than RUNNING."""
    try:
        return record.status == "RUNNING" and directory.is_claimed()
    except PermissionError:  # another user's run
        return False


def _ended_in(path: Path) -> str:
    """Message on the env and episode that a trial's process was stepping when it ended; "" if none is known."""
    return ending_in_words("the trial's process died", stepped_env(path), steps_envs=False)


def _best(path: Path, record: TrialRecord, row: Row, metric: str, recorded: float | None) -> float | None:
    """Best value of a metric, from trial.json or from rows written later."""
    is_running = record.status == "RUNNING"
    is_long = is_running and _size(path / RESULT_FILE) > SMALL_BYTES
    if recorded is None and not record.results_sha256:  # no row has been recorded yet
        return best_value([row] if is_long else iterate_results(path), metric)
    rows = iterate_results(path) if is_running and not is_long else [row]
    later = [row for row in rows if isinstance(row.get("iteration"), int) and row["iteration"] > record.iteration]
    return best_value([{metric: recorded}, *later], metric)


def _problem_of_spec(path: Path) -> str:
    """Error message for the trial's spec.yaml; edits by the file's owner are allowed."""
    try:
        text = _spec_text(path)
    except FileNotFoundError:
        return f"{path / SPEC_FILE}: does not exist"
    except (OSError, ValueError) as error:
        return f"{path / SPEC_FILE}: cannot parse: {error}"
    is_mapping = _MAPPING.match(text) is not None and "\0" not in text
    return "" if is_mapping else f"{path / SPEC_FILE}: cannot parse: not a mapping"


def _numbers(path: Path) -> dict[str, Any]:
    """Numbers of configuration and population in spec.yaml; only these lines are parsed."""
    try:
        text = _spec_text(path)
    except (OSError, ValueError):
        return {}
    return {match[1]: int(match[2]) for match in _NUMBER_LINE.finditer(text)}


def _spec_text(path: Path) -> str:
    return read_verified(path / SPEC_FILE).decode()


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def changed_at(path: Path) -> float:
    """Last modification time of a file, in seconds since 1970; 0 if the file does not exist."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
