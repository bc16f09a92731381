"""The table that a run ends with."""

from __future__ import annotations

from pathlib import Path

from rlrun.cli.outcome import results_table
from rlrun.tune.run_directory import TrialResult


def trial(run: str, name: str) -> TrialResult:
    return TrialResult(name, run, 0, {}, Path("runs") / run / name, "TERMINATED", "", "", {}, None, None)


def first_column(trials: list[TrialResult]) -> list[str]:
    return [line.split()[0] for line in results_table(trials).splitlines()]


def test_trials_of_one_run_go_by_their_names() -> None:
    assert first_column([trial("a", "000-seed=0"), trial("a", "001-seed=1")]) == ["trial", "000-seed=0", "001-seed=1"]


def test_trials_of_several_runs_can_be_told_apart() -> None:
    assert first_column([trial("a", "000-seed=0"), trial("b", "000-seed=0")]) == [
        "trial",
        "a/000-seed=0",
        "b/000-seed=0",
    ]
