"""The table of all benchmarks follows from what each pair measured, which is kept."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import all as bench_all

ABOUT = {"machine": "a CPU, 2 CPUs, Linux 6, load 0.3 at the start", "versions": "rlrun 0.1.0", "how": "in turn"}


def runs(*rates: float) -> list[dict[str, float]]:
    return [{"env_steps": rate * 2, "seconds": 2.0, "cpu_seconds": 1.0} for rate in rates]


@pytest.fixture(autouse=True)
def _own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_all, "RECORDS", tmp_path / "all")
    (tmp_path / "all").mkdir()


def keep(name: str, found: dict[str, Any]) -> None:
    record = {"found": {"about": ABOUT, **found}, "load": 0.34, "commit": "c1"}
    bench_all.record_of(name).write_text(json.dumps(record))


def test_a_call_keeps_what_was_measured_and_writes_the_table_between_the_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = {"Stable-Baselines3": runs(100, 300, 200), "rlrun": runs(1000, 1200, 1400), "RLlib": runs(9, 9, 9)}
    sides["rlrun, prioritized"] = runs(500, 500, 500)
    keep("dqn", {"comparisons": [{"title": "DQN", "aims": {"rlrun": 5.0, "RLlib": None}, "measured": sides}]})
    row = {"title": "A1", "aims": {"rlrun": 10.0}, "measured": {"SB3": runs(2000), "rlrun": runs(8000)}}
    keep("ppo-a1-without-compiler", {"comparisons": [row]})
    page = tmp_path / "page.md"
    page.write_text(f"before\n{bench_all.BEGIN}\nold\n{bench_all.END}\nafter\n")
    arguments = ["--only", "dqn,ppo-a1-without-compiler", "--page", str(page)]
    monkeypatch.setattr(sys, "argv", ["all.py", *arguments])
    bench_all.main()
    assert page.read_text().splitlines() == [
        "before",
        bench_all.BEGIN,
        "",
        "- machine: a CPU, 2 CPUs, Linux 6",
        "- versions: rlrun 0.1.0",
        "",
        *bench_all.HEADER,
        "| A1; no C++ compiler | env steps/s | SB3: 2,000 (2,000 to 2,000) | 8,000 (8,000 to 8,000) "
        "| 4.00 (4.00 to 4.00) | 4.00 | 5, **missed** | 0.3 | c1 |",
        "| DQN | env steps/s | Stable-Baselines3: 200 (100 to 300) | 1,200 (1,000 to 1,400) "
        "| 6.00 (4.00 to 10.00) | 6.00 | 5, reached | 0.3 | c1 |",
        "| DQN: rlrun, prioritized | env steps/s | Stable-Baselines3: 200 (100 to 300) | 500 (500 to 500) "
        "| 2.50 (1.67 to 5.00) | 2.50 |  | 0.3 | c1 |",
        "",
        bench_all.END,
        "after",
    ]


def test_of_times_from_enter_less_is_better() -> None:
    sides = {"rlrun": [{"total_s": 20.0}], "RLlib, as it ships": [{"total_s": 110.0}]}
    found = {"comparisons": [{"title": "a sweep", "aims": {}, "measured": sides}]}
    (comparison,) = bench_all.comparisons(bench_all.PAIRS["sweep"], found)
    assert (comparison.ratio, comparison.ratios) == (5.5, [5.5])
    assert "| s | RLlib, as it ships: 110.0 (110.0 to 110.0) | 20.0 (20.0 to 20.0) | 5.50" in bench_all.row(
        comparison, 0.0, "c1"
    )


def test_every_pair_names_a_part_of_a_benchmark_that_is_there() -> None:
    for pair in bench_all.PAIRS.values():
        text = (Path(bench_all.__file__).parent / pair.topic / "run.py").read_text()
        assert f'"{pair.part}"' in text
