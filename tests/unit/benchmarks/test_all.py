"""All benchmarks write one file for one commit, from which the table of the page is made."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import all as bench_all
from benchmarks import page

ABOUT = {"machine": "a CPU, 2 CPUs, Linux 6, load 0.3 at the start", "rlrun": "0.1.0", "how": "in turn"}
SB3 = "Stable-Baselines3"


def runs(*rates: float) -> list[dict[str, float]]:
    return [{"env_steps": rate * 2, "seconds": 2.0, "cpu_seconds": 1.0} for rate in rates]


def kept(commit: str = "c1", **pairs: Any) -> dict[str, Any]:
    found = {name: {"about": ABOUT, "comparisons": comparisons} for name, comparisons in pairs.items()}
    return {
        "commit": commit,
        "pairs": {name.replace("_", "-"): {"found": each, "load": 0.34} for name, each in found.items()},
    }


def dqn() -> dict[str, Any]:
    sides = {SB3: runs(100, 300, 200), "SBX": runs(600, 600, 600), "rlrun": runs(1000, 1200, 1400)}
    sides |= {"rlrun, prioritized": runs(500, 500, 500), "floor": runs(2400, 2400, 2400)}
    return {"title": "DQN", "aims": {"rlrun": {SB3: 5.0, "SBX": 2.5}, SB3: {}}, "measured": sides}


def test_the_page_has_a_row_for_each_framework_with_its_distance_from_the_floor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    a1 = {"title": "A1", "aims": {"rlrun": {SB3: 10.0}}, "measured": {SB3: runs(2, 2, 2), "rlrun": runs(8, 8, 8)}}
    file, written = tmp_path / "all.json", tmp_path / "page.md"
    file.write_text(json.dumps(kept(dqn=[dqn()], ppo_a1_without_compiler=[a1])))
    written.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    monkeypatch.setattr(sys, "argv", ["page.py", str(file), "--page", str(written)])
    page.main()
    lines = written.read_text().splitlines()
    assert lines[:6] == [
        "before",
        page.BEGIN,
        "",
        "- commit: c1",
        wording(),
        "- rlrun: 0.1.0",
    ]
    assert lines[6] == wording()
    first = next(number for number, line in enumerate(lines) if line == page.HEADER[0])
    assert lines[first:] == [
        *page.HEADER,
        wording(SB3, "4.00", "0.3"),
        wording(SB3, "100", "300"),
        wording(SB3, "200", "100"),
        wording("600", "1,200"),
        wording("600", "500"),
        "",
        page.END,
        "after",
    ]


def test_shorter_durations_count_as_better(wording) -> None:
    sides = {"rlrun": [{"total_s": 20.0}] * 3, "RLlib, as it ships": [{"total_s": 110.0}] * 3}
    found = {"comparisons": [{"title": "a sweep", "aims": {}, "measured": sides}]}
    (comparison,) = page.comparisons("sweep", bench_all.PAIRS["sweep"], found)
    assert (comparison.ratio, comparison.ratios) == (5.5, [5.5] * 3)
    assert page.row(comparison, 0.0) == wording("110.0", "20.0", "5.50")


def test_extra_sides_measured_once_get_no_row_and_compared_sides_measured_twice_are_refused(wording) -> None:
    once = {"rlrun, very first run": [{"total_s": 9.0}]}
    sides = {**once, "rlrun": [{"total_s": 2.0}] * 3, SB3: [{"total_s": 4.0}] * 3}
    found = {"comparisons": [{"title": "solve", "aims": {}, "measured": sides}]}
    (comparison,) = page.comparisons("ppo-solve", bench_all.PAIRS["ppo-solve"], found)
    assert comparison.title == "solve"
    twice = {"title": "A1", "aims": {}, "measured": {SB3: runs(2, 2), "rlrun": runs(8, 8)}}
    with wording.raised(SystemExit):
        page.table(kept(ppo_a1=[twice]))


def test_results_measured_with_uncommitted_changes_are_refused() -> None:
    with pytest.raises(SystemExit, match="commit first"):
        page.table(kept(commit="c1+changes", dqn=[dqn()]))


def test_results_are_not_appended_to_a_file_from_a_different_commit(tmp_path: Path, wording) -> None:
    file = tmp_path / "all.json"
    assert bench_all.kept_in(file, "c1") == {"commit": "c1", "pairs": {}}
    bench_all.write(file, kept(dqn=[dqn()]))
    assert bench_all.kept_in(file, "c1")["pairs"].keys() == {"dqn"}
    with wording.raised(SystemExit):
        bench_all.kept_in(file, "c2")


def test_every_benchmark_pair_names_an_existing_part() -> None:
    for pair in bench_all.PAIRS.values():
        text = (Path(bench_all.__file__).parent / pair.topic / "run.py").read_text()
        assert f'"{pair.part}"' in text
