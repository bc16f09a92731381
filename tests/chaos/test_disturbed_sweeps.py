"""Sweeps that are killed and interrupted at random moments end as if nothing had happened.

Every spec in `specs/` is run once undisturbed, and then repeatedly with disturbances. If nothing depends on which
trial is faster, all trials must have the same numbers, and populations the same lineage. If a rule such as ASHA stops
trials based on the results so far, each trial must match the trial that runs alone, as far as it got. A trial that
reports an inexact resume must have all of its iterations.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from disturbed_run import ROOT, DisturbedRun

from rlrun.engine.checkpoint.format import verify_checkpoint
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.search.lineage import Generation, read_generations
from rlrun.experiments.trial.results import read_results
from tests.results import all_numbers

SPECS = sorted(Path(__file__).with_name("specs").glob("*.yaml"))
SEEDS = range(int(os.environ.get("CHAOS_SEEDS", "3")))
DISTURBANCES = 8
BY_RACE = ("asha", "hyperband", "median")
"""Rules whose decisions depend on the order of results."""

INEXACT = ("apex", "impala")
"""Algorithms whose workers may have weights that are in no checkpoint."""

Numbers = dict[str, list[dict[str, Any]]]


def numbers(run: RunDirectory) -> Numbers:
    """Returns the rows of all trials without timing metrics."""
    return {name: all_numbers(read_results(run.path / name)) for name in run.table.trials}


def lineage(run: RunDirectory) -> list[Generation]:
    """Returns the generations of each population in turn; which population reaches one first depends on timing."""
    return sorted(read_generations(run.path), key=lambda found: (found.population, found.generation))


def is_by_race(spec: Path) -> bool:
    (entry,) = yaml.safe_load(spec.read_text()).values()
    scheduler = entry.get("scheduler") or {}
    return any(name in scheduler for name in BY_RACE)


def without_scheduler(spec: Path, folder: Path) -> Path:
    data = yaml.safe_load(spec.read_text())
    for entry in data.values():
        entry.pop("scheduler", None)
    copy = folder / spec.name
    copy.write_text(yaml.safe_dump(data))
    return copy


@pytest.fixture(scope="module", params=SPECS, ids=lambda spec: spec.stem)
def undisturbed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, RunDirectory, float]:
    """A spec, its run without disturbances, and the seconds that it took."""
    spec = request.param
    folder = tmp_path_factory.mktemp("undisturbed")
    wanted = without_scheduler(spec, folder) if is_by_race(spec) else spec
    command = [sys.executable, "-m", "rlrun", "train", "-f", str(wanted), "--runs-dir", str(folder / "runs")]
    began = time.monotonic()
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True)
    (run,) = (folder / "runs").iterdir()
    return spec, RunDirectory.open(run), time.monotonic() - began


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_repeatedly_killed_and_interrupted_sweep_matches_an_undisturbed_one(
    seed: int, undisturbed: tuple[Path, RunDirectory, float], tmp_path: Path
) -> None:
    spec, calm, seconds = undisturbed
    (tmp_path / "runs").mkdir()
    disturbed = DisturbedRun(spec, tmp_path / "runs", f"{spec.stem} {seed}")
    run = disturbed.until_complete(DISTURBANCES, within_s=seconds)
    expected, found = numbers(calm), numbers(run)
    assert list(found) == list(expected)
    if is_by_race(spec):
        expected = {name: rows[: len(found[name])] for name, rows in expected.items()}
    for name in found:
        if run.record(name).exact_resume is False:
            assert run.experiment().algorithm in INEXACT, str(disturbed)
            expected[name], found[name] = (
                [{"iteration": row["iteration"]} for row in rows[name]] for rows in (expected, found)
            )
    assert found == expected, str(disturbed)
    assert lineage(run) == lineage(calm), str(disturbed)
    for trial in run.results():
        assert (trial.status, trial.error) == ("TERMINATED", ""), str(disturbed)
        if trial.checkpoint is not None:
            verify_checkpoint(trial.checkpoint)
        else:  # the trial was killed while it was being stopped, before its first checkpoint
            assert trial.stop_reason.startswith(BY_RACE), str(disturbed)
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in listed, str(disturbed)
