"""Runs on a cluster survive the death of any of their processes, or print the command that continues them."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import kill_lab
import pytest

KILLS = int(os.environ.get("CHAOS_KILLS", "12"))


def test_the_kill_plan_hits_each_kind_of_process_once_in_a_checkpoint_write_and_once_in_recovery() -> None:
    kills = [kill for attempt in kill_lab.plan(100, seed=0) for kill in attempt.kills]
    drawn = Counter((kill.kind, kill.moment) for kill in kills)
    assert {kind for kind, _ in drawn} == {kind for kinds in kill_lab.KINDS.values() for kind in kinds}
    assert sum(drawn.values()) == 100
    for kind in {kill.kind for kill in kills}:
        assert (drawn[kind, "checkpoint"], drawn[kind, "recovery"]) == (1, 1)


@pytest.mark.chaos
@pytest.mark.timeout(7200)
def test_runs_whose_processes_are_killed_end_with_the_same_rows_as_undisturbed_runs(tmp_path: Path) -> None:
    table = tmp_path / "table"
    wrong = kill_lab.main(["--kills", str(KILLS), "--folder", str(tmp_path / "runs"), "--table", str(table)])
    assert wrong == 0, table.read_text()
