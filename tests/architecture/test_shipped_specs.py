"""Every spec in configs/ and examples/ is valid and unchanged by a round trip through plain data."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from rlrun.engine.settings.registry import algorithm_names
from rlrun.experiments.spec.experiment import Experiment, TrialSpec
from rlrun.experiments.spec.load import load_experiments, parse_experiments, shipped_configs

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))
EXAMPLES = [path for path in (ROOT / "examples").rglob("*.yaml") if path.parent.name != "kubernetes"]
SPECS = [*CONFIGS, *sorted(EXAMPLES)]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def experiments_of_config(path: Path) -> list[Experiment]:
    return load_experiments([path])


def experiments_of(path: Path) -> list[Experiment]:
    """The experiments of a spec, read once for all tests unless it names classes of examples/, which tests unload."""
    return experiments_of_config(path) if path in CONFIGS else load_experiments([path])


@pytest.mark.parametrize("path", SPECS, ids=relative)
def test_experiments_survive_a_json_round_trip_unchanged(path: Path) -> None:
    experiments = experiments_of(path)
    data = json.loads(json.dumps({experiment.name: experiment.to_data() for experiment in experiments}))
    again = parse_experiments(data)
    assert [experiment.trials() for experiment in again] == [experiment.trials() for experiment in experiments]
    assert {experiment.name: experiment.to_data() for experiment in again} == data


@pytest.mark.parametrize("path", SPECS, ids=relative)
def test_trials_survive_a_json_round_trip_unchanged(path: Path) -> None:
    trials = [trial for experiment in experiments_of(path) for trial in experiment.trials()]
    assert [TrialSpec.from_data(json.loads(json.dumps(trial.to_data()))) for trial in trials] == trials


@pytest.mark.parametrize("path", CONFIGS, ids=relative)
def test_config_file_is_named_after_its_algorithm_and_starts_with_a_comment(path: Path) -> None:
    *_, experiment = experiments_of(path)  # the last of its stages
    if path.parent.name == "worlds":  # file names start with the world
        assert [name for name in experiment.algorithms if f"_{name}" not in path.stem] == []
    else:
        assert f"{path.stem}_".startswith(f"{experiment.algorithm}_")
    assert set(experiment.algorithms) <= set(algorithm_names())
    assert path.read_text().startswith("# ")


def test_the_checkout_and_an_installed_package_list_the_same_shipped_configs() -> None:
    assert shipped_configs() == CONFIGS
    installed = sorted((ROOT / "rlrun" / "configs").glob("*/*.yaml"))
    assert [path.resolve() for path in installed] == CONFIGS
