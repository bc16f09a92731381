"""What a run says of its trials while they run."""

from __future__ import annotations

from pathlib import Path

import pytest

import rlrun
from rlrun.runs import active_run
from rlrun.runs.events import RunEvent, TrialNote
from rlrun.trial.event_file import FILE_PATTERN

SPEC = {
    "algorithm": "ppo",
    "env": "CartPole-v1",
    "stop": {"iteration": 6},
    "config": {"train_batch_size": 32, "minibatch_size": 32, "num_epochs": 1, "num_envs_per_worker": 1},
}


def notes_of_size(tmp_path: Path, large: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(active_run, "LARGE_BYTES", large)
    monkeypatch.setattr(active_run, "LOOK_EVERY_ITERATIONS", 2)
    events: list[RunEvent] = []
    rlrun.run({"pole": SPEC}, runs_dir=tmp_path, watch=events.append)
    return [event.text for event in events if isinstance(event, TrialNote) and "result files" in event.text]


def test_a_run_says_once_that_result_files_have_become_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (said,) = notes_of_size(tmp_path, 1, monkeypatch)
    assert said.startswith("its result files take 0 MB after 2 iterations")
    assert "config.min_env_steps_per_iteration" in said


def test_a_run_counts_all_files_that_grow_with_each_iteration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert notes_of_size(tmp_path, 1_000_000, monkeypatch) == []
    (trial,) = (tmp_path / "pole").glob("000*")
    (events,) = trial.glob(FILE_PATTERN)
    size = sum(file.stat().st_size for file in (trial / "result.json", trial / "progress.csv", events))
    (said,) = notes_of_size(tmp_path, round(0.8 * size), monkeypatch)  # which no one of them reaches
    assert "after 6 iterations" in said
