"""Changes to a spec since its run began: which ones allow the run to continue, and how the run adopts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlrun.engine.messages.errors import Problem, SpecError, UsageError, did_you_mean
from rlrun.engine.messages.explain import Location, dotted
from rlrun.experiments.runs.outcome import shown_path
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.spec.difference import Difference, differences
from rlrun.experiments.spec.experiment import Experiment, TrialSpec
from rlrun.experiments.spec.stages import STAGES
from rlrun.experiments.spec.stop_config import END, PLATEAU
from rlrun.experiments.spec.yaml_nodes import Place
from rlrun.experiments.spec.yaml_source import Document, read_document

WITHOUT_ROWS = ("checkpoint", "expect", "failure", "loggers", "storage")
"""Settings of an experiment that cannot change rows of results, so that a run may continue with other values."""


@dataclass(frozen=True)
class SpecChanges:
    """Changes to a spec since its run began.

    Attributes:
        longer: Stop criteria whose values have increased.
        without_rows: Changed settings that do not affect result rows.
        with_rows: All other changed settings, which prevent the run from continuing.
    """

    longer: tuple[Difference, ...]
    without_rows: tuple[Difference, ...]
    with_rows: tuple[Difference, ...]

    @property
    def extension(self) -> dict[str, float]:
        """New values of the increased stop criteria, by metric."""
        return {str(one.location[-1]): one.second.value for one in self.longer if one.second is not None}


def spec_changes(run: RunDirectory, experiment: Experiment) -> SpecChanges:
    """Compares the spec of an existing run with an experiment.

    For settings with the value ``auto``, the numbers measured in the run are used. Schedules that end at ``end`` count
    as equal if they differ only in the run's length.

    Args:
        run: The run.
        experiment: The experiment.

    Raises:
        RunDamaged: The run's spec.yaml is missing or damaged.
    """
    before = run.spec()[0]
    now = _with_measured(experiment, before)
    ends = _lengths({**before, "stop": run.table.first_stop or before["stop"]}), _lengths(now)
    longer, without_rows, with_rows = [], [], []
    for one in differences(before, now):
        first, second = (setting and setting.value for setting in (one.first, one.second))
        key = one.location[0]
        if key in WITHOUT_ROWS:
            without_rows.append(one)
        elif key == "stop" and _is_longer(one):
            longer.append(one)
        elif _relative(first, ends[0]) != _relative(second, ends[1]):
            with_rows.append(one)
    return SpecChanges(tuple(longer), tuple(without_rows), tuple(with_rows))


def _is_longer(change: Difference) -> bool:
    """Whether a changed stop criterion is a larger bound of a metric."""
    if change.first is None or change.second is None or PLATEAU in change.location:
        return False
    return bool(change.second.value > change.first.value)


def _with_measured(experiment: Experiment, before: Mapping[str, Any]) -> dict[str, Any]:
    """Entry of an experiment with a run's own numbers in place of ``auto``."""
    entry, numbers = experiment.to_data(), before.get("config") or {}
    if experiment.auto:
        measured = {name: numbers[name] for name in experiment.auto if name in numbers}
        entry["config"] = {**entry["config"], **measured}
    return entry


def _lengths(entry: Mapping[str, Any]) -> set[float]:
    """Numbers of steps that ``end`` can stand for in the schedules of an entry."""
    policies = len(entry.get("train") or entry.get("policies") or ["the only one"])
    stop = entry["stop"]
    lengths = {stop[unit] for unit in ("env_steps", "sgd_steps") if unit in stop}
    return lengths | {stop["sgd_steps"] // policies for _ in stop if "sgd_steps" in stop}


def _relative(value: Any, lengths: set[float]) -> Any:
    """Value of a setting; a schedule whose last point is at the end of the run gets ``end`` there."""
    points = value if isinstance(value, list) else []
    if not points or not all(isinstance(point, list | tuple) and len(point) == 2 for point in points):
        return value
    *others, (last, height) = points
    return [*others, [END, height]] if last in lengths else value


def problems_of_changes(run: RunDirectory, experiment: Experiment, changed: tuple[Difference, ...]) -> list[Problem]:
    """Converts the changes that prevent a run from continuing into problems of the experiment's spec.

    Args:
        run: The run.
        experiment: The experiment.
        changed: The changes.
    """
    document = _document(experiment)
    return [
        _place(document, experiment, one).problem(dotted(one.location, experiment.name), _in_words(run, one))
        for one in changed
    ]


def _in_words(run: RunDirectory, change: Difference) -> str:
    return f"is {change.second or 'not set'}, but {shown_path(run.path)} has {change.first or 'none'}"


def _document(experiment: Experiment) -> Document:
    """The experiment's file; an empty document if it is not from a file."""
    with suppress(OSError, SpecError):
        return read_document(Path(experiment.origin))
    return Document({})


def _place(document: Document, experiment: Experiment, change: Difference) -> Place:
    """Place of a changed setting in the spec file; none if the file does not set it, or if it is overridden."""
    for location in _locations(experiment.name, change.location):
        if location in document.values and document.value(location) != (change.first and change.first.value):
            return document.place(location)
    return Place("")


def _locations(name: str, location: Location) -> Iterator[Location]:
    """Yields possible locations of an experiment's setting in its file, where the experiment may be a stage."""
    yield (name, *location)
    entry, _, stage = name.rpartition(".")
    yield (entry, STAGES, stage, *location)
    yield (entry, *location)
    if location == ("env", "id"):
        yield from _locations(name, ("env",))


def extend(run: RunDirectory, stop: Mapping[str, float]) -> None:
    """Increases the stop criteria of a run's experiment and of all its trials.

    Trials that ended because they reached the old values can then be resumed.

    Args:
        run: The run.
        stop: New values by metric.

    Raises:
        UsageError: The experiment has no stop criterion for one of the metrics, or already has a higher one.
    """
    experiment = run.experiment()
    bounds = experiment.stop.bounds
    for metric, value in stop.items():
        if metric not in bounds:
            hint = did_you_mean(metric, bounds)
            raise UsageError(f"the run does not stop by {metric}{hint}; it stops by {', '.join(bounds)}")
        if value <= bounds[metric]:
            raise UsageError(f"{metric} is {bounds[metric]:g} already; extend it to more, not to {value:g}")
    if not run.table.first_stop:
        run.write_table(replace(run.table, first_stop=bounds))
    for name in run.table.trials:
        trial, record = run.trial(name), run.record(name)
        run.trial_directory(name).write_spec(trial.replace(stop=trial.stop.replace(**stop)).to_data())
        if record.status == "TERMINATED" and record.stop_reason.partition(" ")[0] in stop:
            run.trial_directory(name).write_record(replace(record, status="INTERRUPTED", stop_reason=""))
    # The run's spec is written last, so that the call can be repeated if it is interrupted.
    run.write_spec(experiment.replace(stop=experiment.stop.replace(**stop)))


def take_over(run: RunDirectory, experiment: Experiment) -> None:
    """Copies the settings in `WITHOUT_ROWS` from an experiment to a run and its trials.

    Args:
        run: The run.
        experiment: The run's experiment with new values of these settings.
    """
    settings = {name: getattr(experiment, name) for name in WITHOUT_ROWS}
    of_trials = {name: value for name, value in settings.items() if name in TrialSpec.model_fields}
    of_trials["max_restarts"] = experiment.failure.max_restarts
    for name in run.table.trials:
        run.trial_directory(name).write_spec(run.trial(name).replace(**of_trials).to_data())
    run.write_spec(run.experiment().replace(**settings))  # last, so that an interrupted call can be repeated
