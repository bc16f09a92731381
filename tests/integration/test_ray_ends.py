"""A run whose Ray is killed fails with a message that says how to continue, and it can be continued."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rlrun
from rlrun.experiments.runs.run_state import read_run_state
from rlrun.experiments.trial.results import read_results
from tests.results import all_numbers

ROOT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).with_name("run_until_signal.py")
SPEC = {
    "pole": {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "seeds": 3,
        "stop": {"iteration": 2000},
        "config": {
            "train_batch_size": 32,
            "min_env_steps_per_iteration": 0,
            "minibatch_size": 32,
            "num_epochs": 1,
            "num_envs_per_worker": 1,
            "model": {"hiddens": [8]},
        },
        "checkpoint": {"every": 1},
        "resources": {"cpus": 2},
        "failure": {"max_restarts": 1},
    }
}
HASTE = {  # makes Ray notice dead processes sooner
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "2",
}


def killed_below(tmp_path: Path, server: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, CHILD, json.dumps(SPEC), str(tmp_path), "ray", "3", "SIGKILL", server],
        env={**os.environ, **HASTE, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=800,
    )


@pytest.mark.chaos
def test_a_run_whose_gcs_server_is_killed_exits_and_reports_the_cause_and_the_resume_command(tmp_path: Path) -> None:
    killed = killed_below(tmp_path, "gcs_server")
    assert killed.returncode == 4, killed.stderr
    assert killed.stderr == (
        "Error: Ray ended on this machine while trials were running: its gcs_server was killed or crashed; "
        f"continue with: rlrun resume {tmp_path}/pole\n"
    )
    state = read_run_state(tmp_path / "pole")
    assert state.drivers == ()
    assert {trial.status for trial in state.trials} == {"INTERRUPTED", "PENDING"}
    assert next(trial for trial in state.trials if trial.status == "INTERRUPTED").checkpoint is not None


@pytest.mark.chaos
def test_a_run_whose_raylet_is_killed_fails_naming_the_cause_and_can_be_resumed(tmp_path: Path) -> None:
    killed = killed_below(tmp_path, "raylet")
    assert killed.returncode == 4, killed.stderr
    assert killed.stdout == (
        "Ray ended on this machine while trials were running: its raylet was killed or crashed; "
        f"continue with: rlrun resume {tmp_path}/pole\n"
    )
    state = read_run_state(tmp_path / "pole")
    assert {trial.status for trial in state.trials} == {"INTERRUPTED", "PENDING"}
    assert not state.is_over
    begun = next(trial for trial in state.trials if trial.status == "INTERRUPTED")
    before = all_numbers(read_results(begun.directory))

    bound = len(before) + 2  # train just far enough to see that it continues
    for trial in state.trials:
        spec = trial.directory / "spec.yaml"
        spec.write_text(spec.read_text().replace("iteration: 2000", f"iteration: {bound}"))
    trials = rlrun.resume(tmp_path / "pole", executor="local")
    assert {trial.status for trial in trials} == {"TERMINATED"}
    assert all_numbers(read_results(begun.directory))[: len(before)] == before
