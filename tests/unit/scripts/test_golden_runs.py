"""The script that compares two revisions: what counts as a difference, and that its runs are valid specs."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from rlrun.engine.settings.registry import BUILT_IN
from rlrun.experiments.spec.load import parse_experiments
from scripts import golden_runs
from scripts.golden_runs import ROOT


@pytest.fixture(scope="module")
def golden() -> Any:
    return golden_runs


@pytest.fixture
def record() -> dict[str, Any]:
    rows = [{"iteration": 1, "loss": 0.5, "kl": float("nan")}, {"iteration": 2, "loss": 0.25, "kl": 1.0}]
    trial = {"seed": 0, "status": "TERMINATED", "rows": rows, "parameters": "abc"}
    return {"machine": "m", "spec": {"stop": {"env_steps": 9}}, "trials": [trial]}


def test_equal_golden_records_have_no_differences_even_if_some_results_are_not_numbers(
    golden: Any, record: dict[str, Any]
) -> None:
    assert golden.differences(record, deepcopy(record), {}) == []


def test_the_first_difference_of_each_result_and_of_the_parameters_is_named(
    golden: Any, record: dict[str, Any], wording
) -> None:
    other = deepcopy(record)
    other["trials"][0]["parameters"] = "xyz"
    for row in other["trials"][0]["rows"]:
        row["loss"] += 2**-52
        row["kl"] = 1
    assert golden.differences(record, other, {}) == wording("0.5000000000000002")


def test_a_renamed_result_is_compared_under_its_new_name_and_a_missing_one_is_a_difference(
    golden: Any, record: dict[str, Any], wording
) -> None:
    other = deepcopy(record)
    for row in other["trials"][0]["rows"]:
        row["policy_loss"] = row.pop("loss")
        row["another"] = 3
    assert golden.differences(record, other, {"loss": "policy_loss"}) == []
    assert golden.differences(record, other, {}) == wording("nothing", "0.5")


def test_golden_records_with_different_specs_machines_lengths_or_ends_are_not_equal(
    golden: Any, record: dict[str, Any], wording
) -> None:
    for key in ("machine", "spec"):
        (line,) = golden.differences(record, {**record, key: "other"}, {})
        assert line == wording(key)
    shorter = deepcopy(record)
    shorter["trials"][0] |= {"rows": record["trials"][0]["rows"][:1], "status": "ERROR"}
    assert golden.differences(record, shorter, {}) == wording()


def test_runs_whose_numbers_depend_on_timing_are_compared_only_by_whether_they_reached_their_end(
    golden: Any, record: dict[str, Any], wording
) -> None:
    record["spec"]["counts"] = True
    record["trials"][0]["rows"] = [{"env_steps": 9, "sgd_steps": 1}]
    other = deepcopy(record)
    other["trials"][0]["rows"] = [{"env_steps": 12, "sgd_steps": 5}, {"env_steps": 13, "sgd_steps": 7}]
    assert golden.differences(record, other, {}) == []
    other["trials"][0]["rows"] = [{"env_steps": 8, "sgd_steps": 0}]
    assert golden.differences(record, other, {}) == wording()


def test_a_setting_is_renamed_for_a_revision_that_does_not_know_its_old_name(
    golden: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = [(frozenset(["dqn"]), "model.lstm", "memory.size"), (frozenset(["dqn"]), "batch", "minibatch")]
    monkeypatch.setattr(golden, "SETTINGS", table)
    config = {"batch": 8, "model": {"lstm": 4, "hiddens": [2]}}
    assert golden.renamed_settings("dqn", config, {"batch": 1, "model": {"lstm": 1}}) == config
    assert golden.renamed_settings("ppo", config, {}) == config
    assert golden.renamed_settings("dqn", config, {"batch": 1, "memory": {"size": 1}}) == {
        "batch": 8,
        "model": {"hiddens": [2]},
        "memory": {"size": 4},
    }


def test_comparing_golden_runs_with_a_base_that_has_the_same_code_is_rejected(
    golden: Any, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setattr(golden, "tree_of", lambda revision: "one tree")
    monkeypatch.setattr(golden, "code_of", lambda tree: "one package")
    monkeypatch.setattr("sys.argv", ["golden_runs.py", "check", "--base", "HEAD"])
    with wording.raised(SystemExit):
        golden.main()


def test_the_small_set_of_golden_runs_trains_every_algorithm_and_all_golden_specs_are_valid(
    golden: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RLRUN_RUNS", str(tmp_path / "runs"))
    golden.record_data(tmp_path / golden.DATA)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(ROOT)  # the runs name files relative to the repository
    small, full = golden.chosen_runs("small", None), golden.chosen_runs("full", None)
    trained = {part["algorithm"] for entry in small.values() for part in golden.learning_parts(entry)}
    # value_iteration takes neither env steps nor gradient steps; distill needs a teacher that was trained before.
    assert trained == set(BUILT_IN) - {"value_iteration", "distill"}
    assert set(small) < set(full)
    entries = {name: golden.entry_here(spec) for name, spec in full.items()}
    assert [experiment.name for experiment in parse_experiments(entries)] == list(full)
