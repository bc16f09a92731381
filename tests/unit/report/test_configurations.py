"""Which trials are grouped together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rlrun.engine.messages.errors import UsageError
from rlrun.report.configurations import groups_by, groups_of
from rlrun.report.reading import read_run
from tests.unit.report.conftest import write_table, write_trial

MakeRun = Callable[..., Path]


def test_all_seeds_of_a_configuration_form_one_group(make_sweep: MakeRun) -> None:
    run = read_run(make_sweep({0.1: [[1], [2]], 0.2: [[3], [4]]}))
    groups = groups_of(run)
    assert [group.label for group in groups] == ["lr=0.1", "lr=0.2"]
    assert [[trial.name[:3] for trial in group.trials] for group in groups] == [["000", "001"], ["002", "003"]]
    assert groups[1].params == {"lr": 0.2}
    assert [group.label for group in groups_of(run, several_runs=True)] == ["sweep, lr=0.1", "sweep, lr=0.2"]


def test_configurations_with_equal_parameters_remain_separate_groups(make_sweep: MakeRun) -> None:
    path = make_sweep({0.1: [[1]], 0.2: [[2]]})
    second = path / "001-lr=0.2-seed=0" / "trial.json"
    second.write_text(json.dumps({**json.loads(second.read_text()), "params": {"lr": 0.1}}))
    assert [group.label for group in groups_of(read_run(path))] == ["lr=0.1 (#0)", "lr=0.1 (#1)"]


def test_trials_without_configuration_numbers_are_grouped_by_parameters(make_sweep: MakeRun) -> None:
    path = make_sweep({0.1: [[1], [2]], 0.2: [[3]]})
    for spec in path.glob("*/spec.yaml"):
        spec.write_text("name: x\n")
    assert [len(group.samples) for group in groups_of(read_run(path))] == [2, 1]


def test_a_group_is_labeled_with_the_run_if_nothing_varies(make_sweep: MakeRun) -> None:
    path = make_sweep({0.1: [[1], [2]]})
    for record in path.glob("*/trial.json"):
        record.write_text(record.read_text().replace('"lr": 0.1', ""))
    assert [group.label for group in groups_of(read_run(path))] == ["sweep"]


def test_a_configuration_with_a_damaged_trial_keeps_its_parameters(make_sweep: MakeRun) -> None:
    path = make_sweep({0.1: [[1], [2]]})
    (path / "000-lr=0.1-seed=0" / "trial.json").write_text("{")
    (group,) = groups_of(read_run(path))
    assert (group.label, group.params, len(group.samples)) == ("lr=0.1", {"lr": 0.1}, 2)


def test_a_pooled_run_has_one_stratum_per_configuration_if_each_has_several_seeds(make_sweep: MakeRun) -> None:
    (seeds,) = groups_of(read_run(make_sweep({0.1: [[1], [2]], 0.2: [[3], [4]]}, name="a")), pool=True)
    assert [len(stratum) for stratum in seeds.strata] == [2, 2]
    (single,) = groups_of(read_run(make_sweep({0.1: [[1]], 0.2: [[3]]}, name="b")), pool=True)
    assert [len(stratum) for stratum in single.strata] == [2]
    assert (seeds.label, single.label) == ("a", "b")


def write_grid(path: Path) -> Path:
    """Writes a run with two learning rates times two discounts, and two seeds for each."""
    path.mkdir(parents=True)
    for number in range(8):
        params = {"lr": 0.1 * (1 + number // 4), "gamma": 0.9 + 0.05 * (number // 2 % 2)}
        write_trial(path, f"{number:03d}", [float(number)], params, configuration=number // 2, seed=number % 2)
    return write_table(path)


@pytest.mark.parametrize("setting", ["lr", "config.lr"])
def test_grouping_by_one_setting_pools_trials_with_different_seeds_and_other_settings(
    tmp_path: Path, setting: str
) -> None:
    run = read_run(write_grid(tmp_path / "grid"))
    groups = groups_by(run, setting)
    assert [(group.label, group.params) for group in groups] == [("lr=0.1", {"lr": 0.1}), ("lr=0.2", {"lr": 0.2})]
    assert [[trial.name for trial in group.trials] for group in groups] == [
        ["000", "001", "002", "003"],
        ["004", "005", "006", "007"],
    ]
    assert [len(stratum) for stratum in groups[0].strata] == [2, 2], "one for each discount"
    assert [group.label for group in groups_by(run, "gamma", several_runs=True)] == [
        "grid, gamma=0.9",
        "grid, gamma=0.95",
    ]


def test_grouping_by_a_setting_that_is_unknown_or_changes_within_trials_is_rejected(
    tmp_path: Path, make_population: MakeRun, wording
) -> None:
    with wording.raised(UsageError, "'gama'", "lr, gamma", "'gamma'"):
        groups_by(read_run(write_grid(tmp_path / "grid")), "gama")
    with wording.raised(UsageError, "'lr'", "population"):
        groups_by(read_run(make_population()), "lr")


def test_a_population_is_one_group_with_a_single_sample(make_population: MakeRun, wording) -> None:
    (group,) = groups_of(read_run(make_population()))
    assert group.label == wording()
    assert [len(sample) for sample in group.samples] == [3]
