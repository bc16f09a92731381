"""Planted faults: the entries are complete, and ranks and tables follow from the commands' output."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

import pytest
import yaml

from benchmarks.faults.__main__ import Entry, entries, rank, seen_by_check, tables
from benchmarks.peers import ROOT
from rlrun.experiments.spec.load import parse_experiments


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.name)
def test_each_entry_is_a_valid_spec_whose_expected_finding_is_documented(entry: Entry) -> None:
    (experiment,) = parse_experiments(yaml.safe_load(entry.file_text))
    assert len(experiment.trials()) == len(entry.seeds)
    page = (ROOT / "docs" / "diagnosing.md").read_text()
    assert bool(entry.mistake) == bool(entry.expected) == bool(entry.why)
    assert entry.expected == "" or f"| {entry.expected.removeprefix('env: ')} |" in page


def record(entry: Entry, *names: str, topics: tuple[str, ...] = ()) -> dict[str, Any]:
    findings = [{"name": name} for name in names]
    return {"entry": asdict(entry), "findings": findings, "env_check": [{"topic": topic} for topic in topics]}


FAULT = Entry("late", 1, {"algorithm": "ppo", "env": "CartPole-v1"}, [0], "late", "env: late observations", "late")
SPEC = Entry("few", 1, {"algorithm": "ppo", "env": "CartPole-v1"}, [0, 1], "few", "few updates", "few")
HEALTHY = Entry("fine", 1, "regression/ppo_cartpole", [0])


def test_the_rank_is_the_position_of_the_finding_and_env_checks_apply_only_to_env_faults() -> None:
    found = record(FAULT, "values grow", "env: late observations", topics=("late observations",))
    assert (rank(found), seen_by_check(found)) == (2, True)
    assert (rank(record(FAULT, "values grow")), seen_by_check(record(FAULT))) == (None, False)
    assert seen_by_check(record(SPEC, topics=("few updates",))) is None


def test_each_half_has_its_own_table_and_a_repeated_mistake_counts_once_with_its_worse_rank() -> None:
    later = Entry(**{**asdict(FAULT), "name": "later", "half": 2})
    again = Entry(**{**asdict(FAULT), "name": "again", "half": 2, "same_as": "later"})
    known = {entry.name: entry for entry in (FAULT, SPEC, HEALTHY, later, again)}
    found = {
        "late": record(FAULT, "env: late observations", topics=("late observations",)),
        "few": record(SPEC, "a", "b", "c", "few updates"),
        "fine": record(HEALTHY),
        "later": record(later, "env: late observations"),
        "again": record(again, "a", "env: late observations"),
    }
    lines = tables(known, found, {}).split("\n")
    first, second = (next(line for line in lines if f"Half {half}" in line) for half in (1, 2))
    assert re.findall(r"\d+", first) == ["1", "1", "2", "1", "1", "1"]  # half, first, all, third, quiet, all healthy
    assert re.findall(r"\d+", second) == ["2", "0", "1", "1", "0", "0"]
    assert [line.split(" | ")[-2:] for line in lines if "`few`" in line] == [["4", " |"]]
    assert lines.index(second) > max(index for index, line in enumerate(lines) if "`late`" in line or "`fine`" in line)


def test_findings_from_before_a_detector_change_are_shown_next_to_the_current_findings() -> None:
    later = Entry(**{**asdict(FAULT), "name": "later", "half": 2})
    fine = Entry(**{**asdict(HEALTHY), "half": 2})
    now = {"later": record(later, "env: late observations", topics=("late observations",)), "fine": record(fine)}
    frozen = {"later": record(later, "values grow"), "fine": record(fine, "values grow")}
    lines = tables({"later": later, "fine": fine}, now, frozen).split("\n")
    counts = [re.findall(r"\d+", line) for line in lines if "Half 2" in line]
    assert counts == [["2", "0", "1", "0", "0", "1"], ["2", "1", "1", "1", "1", "1"]]
    cells = {line.split("`")[1]: line.split(" | ")[-3:] for line in lines if line.startswith("| `")}
    assert cells == {"later": ["none", "1", "finds it |"], "fine": ["0", "values grow", "none |"]}
