"""`rlrun train --shard`: its forms, and the outputs of commands for a run in shards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.runs.shard import Shard
from tests.command import rlrun

SPEC = """\
sweep:
  algorithm: ppo
  env: rlrun.toys:MultiDiscreteMatch
  seeds: [0, 1, 2]
  stop: {iteration: 1}
  config: {train_batch_size: 32, minibatch_size: 32, num_epochs: 1, min_env_steps_per_iteration: 0,
           num_envs_per_worker: 2, model: {hiddens: [4]}}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC)
    return file


@pytest.mark.parametrize("shard", ["4/4", "7/4", "0/0", "-1/4", "1", "one/two"])
def test_a_shard_that_does_not_exist_is_refused(spec: Path, shard: str, wording) -> None:
    refused = rlrun("train", spec, "--runs-dir", spec.parent / "runs", "--shard", shard)
    assert (refused.exit_code, refused.stderr) == (2, wording("--shard", shard))
    assert not (spec.parent / "runs").exists()


def test_a_shard_reports_only_its_own_trials_but_status_reports_all(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")  # a shard that Slurm has requeued continues
    words = ["train", spec, "--runs-dir", spec.parent / "runs", "--shard", "1/2"]
    for _ in range(2):
        trained = rlrun(*words, "--retry-failed", "--json")
        assert trained.exit_code == 0
        assert [trial["name"] for trial in json.loads(trained.stdout)["trials"]] == ["001-seed=1"]
    run = RunDirectory.open(spec.parent / "runs/sweep")
    with RunDirectory(run.path, run.table, Shard(0, 2)).locked():
        status = json.loads(rlrun("status", run.path, "--json").stdout)
    assert [driver["shard"] for driver in status["drivers"]] == ["0/2"]
    assert [trial["status"] for trial in status["trials"]] == ["PENDING", "TERMINATED", "PENDING"]


def test_training_a_shard_without_trials_succeeds(spec: Path) -> None:
    assert rlrun("train", spec, "--runs-dir", spec.parent / "runs", "--shard", "4/5").exit_code == 0
