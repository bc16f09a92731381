"""Baseline: a stored regression run, with which the learning curves and speed of a new run are compared."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from rlrun.engine.checkpoint.durable import write_file
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.settings.config import ConfigModel, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from rlrun.experiments.cluster.resources import machine_cpus
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.trial.results import RETURN, Row, read_results
from rlrun.report.reading import EVALUATION_METRIC
from rlrun.report.regression.verdicts import Case, JudgedValue, Verdict, compare_differences, compare_ratios
from rlrun.report.step_axis import ENV_STEPS, SGD_STEPS, counted_metric

FORMAT = 1
POINTS = 101
"""Number of points in a stored learning curve."""
SPEED_TOLERANCE = 0.1
"""Relative difference in speed between two runs on one machine that is within normal variation."""

_COMPARED_KEYS = ("algorithm", "env", "policies", "mapping", "train", "seats", "league", "config", "stop")


class Machine(ConfigModel):
    """Machine of a regression run, stored since the run's speed depends on it."""

    system: str
    """Operating system and architecture."""
    processor: str
    """Model of the processor."""
    cpus: PositiveInt
    """Number of available cores."""


class SeedRecord(ConfigModel):
    """Result of one seed of one configuration: learning curve and outcome."""

    seed: NonNegativeInt
    """Root seed."""
    configuration: str
    """Values of the settings that vary between the experiment's configurations, as text."""
    outcome: str
    """Outcome of the seed: reached or missed."""
    env_steps: tuple[NonNegativeFloat, ...]
    """Env steps at the points of the learning curve; () in training from data alone."""
    sgd_steps: tuple[NonNegativeFloat, ...] = ()
    """SGD steps at the points of the learning curve in training from data alone."""
    returns: tuple[float, ...]
    """`episode_return_mean` at each point of the learning curve, of evaluations in training from data alone."""
    env_steps_per_s: PositiveFloat | None
    """Median over iterations of the env steps per second; null if not measured."""
    sgd_steps_per_s: PositiveFloat | None = None
    """Median over iterations of the SGD steps per second in training from data alone."""

    @property
    def steps(self) -> tuple[float, ...]:
        """Steps at the points of the learning curve: env steps, or SGD steps in offline training."""
        return self.sgd_steps or self.env_steps

    @property
    def steps_per_s(self) -> float | None:
        """Median over iterations of the steps per second."""
        return self.env_steps_per_s if self.sgd_steps_per_s is None else self.sgd_steps_per_s


class ExperimentRecord(ConfigModel):
    """Stored result of one experiment: the verdict and the results of its seeds."""

    passed: bool
    """Whether the experiment reached the targets in its spec."""
    executor: str
    """Executor of the trials, on which their speed depends."""
    spec: dict[str, Any]
    """Resolved spec of the experiment."""
    seeds: tuple[SeedRecord, ...]
    """Results of the seeds that did not fail."""


class Baseline(ConfigModel):
    """Results of a regression run, stored in a file for comparison with later runs."""

    format: PositiveInt
    """Version of the baseline format."""
    created: str
    """Time of the baseline's creation, ISO 8601 in UTC."""
    versions: dict[str, str]
    """Versions of Python and of important packages."""
    machine: Machine
    """Machine of the regression run."""
    experiments: dict[str, ExperimentRecord]
    """Results of the experiments by name."""


def baseline_of(verdicts: Sequence[Verdict]) -> Baseline:
    """Creates a baseline (results to compare later runs with) from a finished regression run.

    Args:
        verdicts: Verdicts of the run; curves and speeds are read from the trial directories that they name.
    """
    runs = {verdict.experiment: RunDirectory.open(verdict.cases[0].directory.parent) for verdict in verdicts}
    return Baseline(
        format=FORMAT,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=next((run.table.versions for run in runs.values()), {}),
        machine=this_machine(),
        experiments={
            verdict.experiment: ExperimentRecord(
                passed=verdict.passed,
                executor=runs[verdict.experiment].table.executor,
                spec=runs[verdict.experiment].spec()[0],
                seeds=tuple(_seed_record(case) for case in verdict.cases if not case.error),
            )
            for verdict in verdicts
        },
    )


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Writes a baseline as JSON, atomically."""
    write_file(path, json.dumps(baseline.to_data(), indent=1, allow_nan=False).encode() + b"\n")


def read_baseline(path: Path) -> Baseline:
    """Loads a baseline.

    Raises:
        UsageError: If the file is not a baseline, or was written by a newer rlrun.
    """
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{path}: does not exist; create it with --save-baseline") from None
    except ValueError as error:
        raise UsageError(f"{path}: not a baseline: {error}") from error
    if isinstance(data, Mapping) and isinstance(data.get("format"), int) and data["format"] > FORMAT:
        raise UsageError(f"{path}: written by a newer rlrun; update rlrun")
    try:
        return Baseline.parse(data)
    except SpecError as error:
        raise UsageError(f"{path}: not a baseline:\n{error}") from error


def compare(verdicts: Sequence[Verdict], baseline: Baseline, *, holds_speed: bool) -> list[Verdict]:
    """Compares learning curves and speeds with those of a baseline; returns the verdicts with the comparisons added.

    Args:
        verdicts: Verdicts of a regression run that is not a negative control.
        baseline: The stored regression run.
        holds_speed: Whether an experiment fails if it trains more slowly than in the baseline.
    """
    now = baseline_of(verdicts)
    return [
        replace(
            verdict,
            area=_compare_areas(now.experiments[verdict.experiment], before),
            speed=_compare_speeds(now, baseline, verdict.experiment),
            holds_speed=holds_speed,
        )
        for verdict in verdicts
        for before in (baseline.experiments.get(verdict.experiment),)
    ]


def difference_of_machines(now: Machine, before: Machine) -> str:
    """Differences between two machines as text; "" if speeds on them are comparable."""
    fields = [name for name in Machine.model_fields if getattr(now, name) != getattr(before, name)]
    return "; ".join(f"{name}: {getattr(before, name)} there, {getattr(now, name)} here" for name in fields)


def this_machine() -> Machine:
    """Description of the machine on which this process runs."""
    system = f"{platform.system()} {platform.machine()}"
    return Machine(system=system, processor=_processor(), cpus=machine_cpus())


def _compare_areas(now: ExperimentRecord, before: ExperimentRecord | None) -> JudgedValue:
    """Compares the mean heights of learning curves, over the steps that both runs cover.

    The range begins where all curves have a value, and ends at the farthest point that both runs reached. A seed that
    ended earlier keeps its last value, since it had reached its stop criterion.
    """
    if before is None:
        return JudgedValue("not judged", note="not in the baseline")
    sides = [[record for record in side.seeds if record.steps] for side in (now, before)]
    if not all(sides):
        return JudgedValue("not judged", note="no learning curve")
    begin = max(record.steps[0] for side in sides for record in side)
    end = min(max(record.steps[-1] for record in side) for side in sides)
    if end <= begin:
        return JudgedValue("not judged", note="the curves have no steps in common")
    changed = [key for key in _COMPARED_KEYS if now.spec.get(key) != before.spec.get(key)]
    note = f"the spec's {' and '.join(changed)} changed after the baseline was recorded" if changed else ""
    return compare_differences(_areas(now, begin, end), _areas(before, begin, end), note=note)


def _compare_speeds(now: Baseline, before: Baseline, name: str) -> JudgedValue:
    mine, theirs = now.experiments[name], before.experiments.get(name)
    if theirs is None:
        return JudgedValue("not judged", is_ratio=True, note="not in the baseline")
    elsewhere = difference_of_machines(now.machine, before.machine)
    if elsewhere:
        return JudgedValue("not judged", is_ratio=True, note=f"measured on a different machine ({elsewhere})")
    if mine.executor != theirs.executor:
        return JudgedValue("not judged", is_ratio=True, note=f"executor {theirs.executor} before, {mine.executor} now")
    return compare_ratios(_speeds(mine), _speeds(theirs), tolerance=SPEED_TOLERANCE)


def _areas(experiment: ExperimentRecord, begin: float, end: float) -> dict[str, list[float]]:
    """Mean height of each seed's learning curve: the area from `begin` to `end`, divided by the length."""
    grid = np.linspace(begin, end, 2 * POINTS)
    areas: dict[str, list[float]] = {}
    for record in experiment.seeds:
        if record.steps:
            heights = np.interp(grid, record.steps, record.returns)
            areas.setdefault(record.configuration, []).append(float((heights[1:] + heights[:-1]).mean() / 2))
    return areas


def _speeds(experiment: ExperimentRecord) -> dict[str, list[float]]:
    speeds: dict[str, list[float]] = {}
    for record in experiment.seeds:
        if record.steps_per_s is not None:
            speeds.setdefault(record.configuration, []).append(record.steps_per_s)
    return speeds


def _seed_record(case: Case) -> SeedRecord:
    rows = read_results(case.directory)
    counter = counted_metric(rows)
    metric = RETURN if counter == ENV_STEPS else EVALUATION_METRIC
    points = {
        float(row[counter]): float(row[metric])
        for row in rows
        if row.get(counter) is not None and row.get(metric) is not None
    }
    steps, returns = list(points), list(points.values())
    if len(points) > POINTS:
        grid = np.linspace(steps[0], steps[-1], POINTS)
        steps, returns = grid.tolist(), np.interp(grid, steps, returns).tolist()
    rate = _rate(rows, counter)
    is_of_data = counter == SGD_STEPS
    return SeedRecord(
        seed=case.seed,
        configuration=case.configuration,
        outcome=case.outcome,
        env_steps=() if is_of_data else tuple(steps),
        sgd_steps=tuple(steps) if is_of_data else (),
        returns=tuple(float(f"{value:.6g}") for value in returns),
        env_steps_per_s=None if is_of_data else rate,
        sgd_steps_per_s=rate if is_of_data else None,
    )


def _rate(rows: Sequence[Row], counter: str) -> float | None:
    """Median over iterations of the steps per second, None if not measured."""
    if counter == ENV_STEPS:
        rates = [row["env_steps_per_s"] for row in rows if row.get("env_steps_per_s")]
    else:
        counts = np.diff([row[counter] for row in rows])
        rates = [count / row["time_this_iter_s"] for count, row in zip(counts, rows[1:], strict=True)]
    return float(np.median(rates)) if rates else None


def _processor() -> str:
    """Model name of the processor, or its architecture if the name is unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
