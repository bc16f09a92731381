"""`rlrun diff`: the settings in which specs, runs and trials differ."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.spec.difference import Difference, Setting, differences, entry_of_trial
from rlrun.experiments.spec.load import parse_experiments
from tests.command import rlrun

SPEC = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 1000}}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name, lr in (("pole", 1e-3), ("sweep", {"grid_search": [1e-3, 3e-4]})):
        (experiment,) = parse_experiments({name: {**SPEC, "config": {"lr": lr}}})
        RunDirectory.create(tmp_path, name, experiment, experiment.trials(), "local")
    (tmp_path / "two.yaml").write_text(json.dumps({"a": SPEC, "b": {**SPEC, "seeds": 2}}))
    return tmp_path


def diff(runs: Path, *words: str) -> Any:
    done = rlrun("diff", *words, "--runs-dir", runs)
    assert done.exit_code == 0, done.output
    return [re.split(" {2,}", line) for line in done.stdout.splitlines()[1:]]


def test_the_diff_command_lists_settings_that_differ_and_marks_defaults(runs: Path) -> None:
    assert diff(runs, f"{runs}/two.yaml:a", "pole") == [["config.lr", "0.0003 (default)", "0.001"]]
    assert diff(runs, f"{runs}/two.yaml:b", f"{runs}/two.yaml:a") == [["seeds", "[0, 1]", "[0] (default)"]]


def test_the_diff_command_shows_the_search_space_of_a_sweep_and_the_value_of_a_trial(runs: Path, wording) -> None:
    assert diff(runs, "pole", "sweep") == [["config.lr", "0.001", "{grid_search: [0.001, 0.0003]}"]]
    assert diff(runs, "pole", "sweep/001-lr=0.0003-seed=0") == [["config.lr", "0.001", "0.0003 (default)"]]
    same = rlrun("diff", "pole", "sweep/000-lr=0.001-seed=0", "--runs-dir", runs)
    assert same.stdout == wording("sweep/000-lr", "0.001")


def test_json_lists_each_difference_with_its_values_and_marks_defaults(runs: Path) -> None:
    document = json.loads(rlrun("diff", "sweep", "pole", "--runs-dir", runs, "--json").stdout)
    (only,) = document["differences"]
    assert only["setting"] == "config.lr"
    assert only["a"] == {"value": {"grid_search": [0.001, 0.0003]}, "is_default": False}
    assert only["b"] == {"value": 0.001, "is_default": False}


def test_ambiguous_and_misspelled_names_are_refused_with_suggestions(runs: Path, wording) -> None:
    several = rlrun("diff", f"{runs}/two.yaml", "pole", "--runs-dir", runs)
    assert (several.exit_code, several.stderr) == (2, wording())
    misspelt = rlrun("diff", "poel", "sweep", "--runs-dir", runs)
    assert (misspelt.exit_code, "did you mean 'pole'?" in misspelt.stderr) == (2, True)


def test_a_section_set_on_only_one_side_is_listed_as_one_difference_per_key() -> None:
    found = differences({**SPEC, "evaluation": {"every": 10}}, {**SPEC, "evaluation": None})
    assert found == [Difference(("evaluation", "every"), Setting(10, False), None)]


def test_settings_that_one_of_the_two_algorithms_lacks_have_no_value_on_its_side() -> None:
    found = {one.setting: one for one in differences(SPEC, {**SPEC, "algorithm": "dqn"})}
    assert found["config.gae_lambda"] == Difference(("config", "gae_lambda"), Setting(0.95, True), None)
    assert found["config.double"].first is None
    assert "config.gamma" not in found


def test_code_named_by_a_run_is_not_imported_to_compare_settings() -> None:
    stranger = {**SPEC, "algorithm": "os:system", "env": {"id": "no_such_module:Env"}, "config": {"lr": 1}}
    assert [one.setting for one in differences(stranger, {**stranger, "config": {"lr": 2}})] == ["config.lr"]


def test_differences_between_worlds_are_listed_per_policy() -> None:
    policy = {"algorithm": "ppo", "config": {"lr": 0.5}}
    world = {"policies": {"left": policy, "right": policy}, "env": {"world": "a:B"}, "stop": {"iteration": 1}}
    changed = {**world, "policies": {"left": policy, "right": {"algorithm": "ppo"}}}
    found = differences(world, changed)
    assert found == [Difference(("policies", "right", "config", "lr"), Setting(0.5, False), Setting(0.0003, True))]


def test_a_trial_is_compared_as_a_spec_entry_with_its_seed_and_max_restarts() -> None:
    entry = entry_of_trial({**SPEC, "name": "000", "seed": 3, "max_restarts": 2, "params": {}})
    assert entry == {**SPEC, "seeds": [3], "failure": {"max_restarts": 2}}
