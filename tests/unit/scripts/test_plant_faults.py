"""The script that plants mistakes: each entry still fits the code, and output of pytest and gates is read correctly."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from rlrun.experiments.spec.load import load_experiments
from rlrun.report.regression.control import gates_of
from scripts import plant_faults
from scripts.plant_faults import ROOT, Fault

FAULTS = plant_faults.read_faults()


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_each_fault_changes_one_line_of_the_current_code_and_names_existing_tests(fault: Fault) -> None:
    before = (ROOT / fault.file).read_text()
    after = fault.planted(before)
    ast.parse(after)
    pairs = zip(before.splitlines(), after.splitlines(), strict=True)
    assert sum(old != new for old, new in pairs) == 1
    assert fault.tests
    assert all((ROOT / path.partition("::")[0]).exists() for path in fault.tests)


def test_a_fault_whose_line_is_missing_or_duplicated_is_rejected(wording) -> None:
    fault = Fault("absent", "first", "Never.", "a.py", "x = 1", "x = 2", ())
    for text in ("y = 1\n", "x = 1\nx = 1\n"):
        with wording.raised(ValueError):
            fault.planted(text)


def test_failed_tests_are_listed_once_without_parameters() -> None:
    report = (
        "FAILED tests/a.py::test_b[1 - x] - assert 1\nFAILED tests/a.py::test_b[2]\nERROR tests/c.py - ImportError\n"
        "2 failed, 3 passed\n"
    )
    assert plant_faults.failures_in(report) == ["tests/a.py::test_b", "tests/c.py"]


@pytest.mark.parametrize(
    ("rate", "seeds", "passes", "expected"), [(1.0, 3, 3, 0.0), (0.9, 3, 3, 1 - 0.9**3), (0.5, 3, 2, 0.5)]
)
def test_the_false_alarm_rate_of_a_gate_is_the_probability_of_too_few_passes(
    rate: float, seeds: int, passes: int, expected: float
) -> None:
    assert plant_faults.false_red(rate, seeds, passes) == pytest.approx(expected)


def test_new_results_replace_their_entry_in_the_record_of_a_fault_and_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plant_faults, "RECORDS", tmp_path / "records")
    assert plant_faults.recorded("some") == {}
    plant_faults.record("some", {"tests": ["a"], "gates": {}})
    plant_faults.record("some", {"tests": ["b"]})
    assert plant_faults.recorded("some") == {"tests": ["b"], "gates": {}}
    assert json.loads((tmp_path / "records" / "some.json").read_text()) == {"tests": ["b"], "gates": {}}


def test_the_page_of_planted_faults_shows_the_recorded_results() -> None:
    page = plant_faults.PAGE.read_text()
    block = page.partition(plant_faults.BEGIN)[2].partition(plant_faults.END)[0]
    assert block.strip().splitlines() == plant_faults.lines_of_page()


def test_quick_gates_set_their_seeds_and_passes_explicitly() -> None:
    gates = gates_of(load_experiments(sorted((ROOT / "configs" / "regression").glob("*.yaml"))), None, control=False)
    assert all(gate.expect.seeds and gate.expect.passes for gate in gates)
