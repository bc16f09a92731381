"""Baseline: a stored regression run, with which the learning curves and speed of a new one are compared."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from rlrun.checkpoint.durable import write_file
from rlrun.cluster.resources import machine_cpus
from rlrun.config import ConfigModel, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from rlrun.errors import SpecError, UsageError
from rlrun.regression.judgement import Comparison, compare_differences, compare_ratios
from rlrun.regression.verdicts import Case, Verdict
from rlrun.runs.run_directory import RunDirectory
from rlrun.trial.results import read_results

FORMAT = 1
POINTS = 101
"""Points of a stored curve."""
SPEED_TOLERANCE = 0.1
"""Relative difference in speed between two runs on one machine that needs no cause in the code."""

_COMPARED_KEYS = ("algorithm", "env", "policies", "mapping", "train", "seats", "league", "config", "stop")


class Machine(ConfigModel):
    """The machine of a run, on which its speed depends."""

    system: str
    """Operating system and architecture."""
    processor: str
    """Model of the processor."""
    cpus: PositiveInt
    """Cores that may be used."""


class SeedRecord(ConfigModel):
    """Learning curve and outcome of one seed of one configuration."""

    seed: NonNegativeInt
    """Root seed."""
    configuration: str
    """The values that vary between the experiment's configurations, as a text."""
    outcome: str
    """reached or missed."""
    env_steps: tuple[NonNegativeFloat, ...]
    """Env steps of the curve's points."""
    returns: tuple[float, ...]
    """`episode_return_mean` at each point."""
    env_steps_per_s: PositiveFloat | None
    """Median of the iterations' speeds; null where none was measured."""


class ExperimentRecord(ConfigModel):
    """Verdict and seeds of one experiment."""

    passed: bool
    """Whether it reached the targets in its spec."""
    executor: str
    """Executor of its trials, on which their speed depends."""
    spec: dict[str, Any]
    """Its resolved spec."""
    seeds: tuple[SeedRecord, ...]
    """The seeds that did not fail."""


class Baseline(ConfigModel):
    """A stored regression run."""

    format: PositiveInt
    """Version of this format."""
    created: str
    """Time of creation, ISO 8601 in UTC."""
    versions: dict[str, str]
    """Versions of Python and of the packages that matter."""
    machine: Machine
    """The machine it ran on."""
    experiments: dict[str, ExperimentRecord]
    """The experiments by name."""


def baseline_of(verdicts: Sequence[Verdict]) -> Baseline:
    """Returns the baseline of a regression run.

    Args:
        verdicts: Its verdicts, whose cases' directories are read.
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
    """Writes a baseline as JSON, whole or not at all."""
    write_file(path, json.dumps(baseline.to_data(), indent=1, allow_nan=False).encode() + b"\n")


def read_baseline(path: Path) -> Baseline:
    """Reads a baseline.

    Raises:
        UsageError: If the file is not a baseline, or that of a newer rlrun.
    """
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{path}: does not exist; --save-baseline makes it") from None
    except ValueError as error:
        raise UsageError(f"{path}: not a baseline: {error}") from error
    if isinstance(data, Mapping) and isinstance(data.get("format"), int) and data["format"] > FORMAT:
        raise UsageError(f"{path}: made by a newer rlrun; update rlrun")
    try:
        return Baseline.parse(data)
    except SpecError as error:
        raise UsageError(f"{path}: not a baseline:\n{error}") from error


def compare(verdicts: Sequence[Verdict], baseline: Baseline, *, holds_speed: bool) -> list[Verdict]:
    """Returns the verdicts with comparisons of their curves and speeds with the baseline's.

    Args:
        verdicts: The verdicts of a run that is not a control.
        baseline: The stored run.
        holds_speed: Whether an experiment that is slower fails.
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
    """Returns the differences between two machines in words, "" if speeds on them can be compared."""
    fields = [name for name in Machine.model_fields if getattr(now, name) != getattr(before, name)]
    return ", ".join(f"{name} {getattr(now, name)}, then {getattr(before, name)}" for name in fields)


def this_machine() -> Machine:
    """Returns the machine that this process runs on."""
    system = f"{platform.system()} {platform.machine()}"
    return Machine(system=system, processor=_processor(), cpus=machine_cpus())


def _compare_areas(now: ExperimentRecord, before: ExperimentRecord | None) -> Comparison:
    """Compares the curves' mean heights over the env steps that both runs cover.

    They begin where all curves have a value, and end at the farthest point that both runs reached. A seed that ended
    before keeps its last value, since it had reached its stop.
    """
    if before is None:
        return Comparison("not judged", note="the baseline does not have it")
    sides = [[record for record in side.seeds if record.env_steps] for side in (now, before)]
    if not all(sides):
        return Comparison("not judged", note="there is no learning curve")
    begin = max(record.env_steps[0] for side in sides for record in side)
    end = min(max(record.env_steps[-1] for record in side) for side in sides)
    if end <= begin:
        return Comparison("not judged", note="the curves have no env steps in common")
    changed = [key for key in _COMPARED_KEYS if now.spec.get(key) != before.spec.get(key)]
    note = f"{' and '.join(changed)} of the spec changed since" if changed else ""
    return compare_differences(_areas(now, begin, end), _areas(before, begin, end), note=note)


def _compare_speeds(now: Baseline, before: Baseline, name: str) -> Comparison:
    mine, theirs = now.experiments[name], before.experiments.get(name)
    if theirs is None:
        return Comparison("not judged", is_ratio=True, note="the baseline does not have it")
    elsewhere = difference_of_machines(now.machine, before.machine)
    if elsewhere:
        return Comparison("not judged", is_ratio=True, note=f"another machine: {elsewhere}")
    if mine.executor != theirs.executor:
        return Comparison("not judged", is_ratio=True, note=f"executor {mine.executor}, then {theirs.executor}")
    return compare_ratios(_speeds(mine), _speeds(theirs), tolerance=SPEED_TOLERANCE)


def _areas(experiment: ExperimentRecord, begin: float, end: float) -> dict[str, list[float]]:
    """Returns each seed's area under the curve from `begin` to `end`, divided by their distance: its mean height."""
    grid = np.linspace(begin, end, 2 * POINTS)
    areas: dict[str, list[float]] = {}
    for record in experiment.seeds:
        if record.env_steps:
            heights = np.interp(grid, record.env_steps, record.returns)
            areas.setdefault(record.configuration, []).append(float((heights[1:] + heights[:-1]).mean() / 2))
    return areas


def _speeds(experiment: ExperimentRecord) -> dict[str, list[float]]:
    speeds: dict[str, list[float]] = {}
    for record in experiment.seeds:
        if record.env_steps_per_s is not None:
            speeds.setdefault(record.configuration, []).append(record.env_steps_per_s)
    return speeds


def _seed_record(case: Case) -> SeedRecord:
    rows = read_results(case.directory)
    points = {
        float(row["env_steps"]): float(row["episode_return_mean"])
        for row in rows
        if row.get("env_steps") is not None and row.get("episode_return_mean") is not None
    }
    env_steps, returns = list(points), list(points.values())
    if len(points) > POINTS:
        grid = np.linspace(env_steps[0], env_steps[-1], POINTS)
        env_steps, returns = grid.tolist(), np.interp(grid, env_steps, returns).tolist()
    speeds = [row["env_steps_per_s"] for row in rows if row.get("env_steps_per_s")]
    return SeedRecord(
        seed=case.seed,
        configuration=case.configuration,
        outcome=case.outcome,
        env_steps=tuple(env_steps),
        returns=tuple(float(f"{value:.6g}") for value in returns),
        env_steps_per_s=float(np.median(speeds)) if speeds else None,
    )


def _processor() -> str:
    """Returns the model name of the processor, or its architecture if the system has no name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
