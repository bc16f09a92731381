"""Demonstrations next to a spec are found from any folder, even when its run is resumed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import rlrun

SPEC = Path(__file__).parents[2] / "configs/mountaincar/r2d3.yaml"


def test_demonstrations_are_found_when_a_run_starts_or_resumes_in_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sys.path.copy()
    short = ["stop.iteration=2", "config.learning_starts=100", "config.min_env_steps_per_iteration=150"]
    short += ["config.model.core_width=8", "config.minibatch_size=4", "checkpoint.every=1"]
    short += ["evaluation.every=1000", "evaluation.episodes=1"]
    monkeypatch.setattr(sys, "path", before.copy())
    (trial,) = rlrun.run(SPEC, overrides=[*short, "config.compile=false"], runs_dir=tmp_path)
    assert trial.status == "TERMINATED"
    assert trial.last_result["sgd_steps"] > 1
    monkeypatch.setattr(sys, "path", before.copy())
    (trial,) = rlrun.resume(tmp_path / "mountaincar-r2d3", extend={"iteration": 3})
    assert trial.status == "TERMINATED"
    assert trial.last_result["iteration"] == 3
