"""`rlrun train` and `rlrun regress`, run again: with `--resume`, without it, and in a job that Slurm has requeued."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.spec.load import load_experiments
from tests.command import rlrun

SPEC = """\
job:
  algorithm: ppo
  env: rlrun.toys:MultiDiscreteMatch
  stop: {iteration: 2}
  expect: {episode_return_mean: -1}
  config: {train_batch_size: 32, minibatch_size: 32, num_epochs: 1, min_env_steps_per_iteration: 0,
           num_envs_per_worker: 2, model: {hiddens: [4]}}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC)
    return file


@pytest.fixture
def left(spec: Path) -> RunDirectory:
    """A run whose process was killed before its trial began."""
    (experiment,) = load_experiments([spec])
    return RunDirectory.create(spec.parent / "runs", "job", experiment, experiment.trials(), "local")


def test_a_requeued_slurm_job_without_the_resume_option_is_refused_instead_of_starting_over(
    spec: Path, left: RunDirectory, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    words = ["train", spec, "--runs-dir", spec.parent / "runs"]
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    refused = rlrun(*words)
    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (2, wording("--resume", "SLURM_RESTART_COUNT=2"))
    assert [path.name for path in left.path.parent.iterdir()] == ["job"]
    other = rlrun(*words, "--name", "other")
    assert (other.exit_code, (spec.parent / "runs/other").is_dir()) == (0, True)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "0")
    begun = rlrun(*words)
    assert begun.exit_code == 0
    assert begun.stderr.splitlines()[0] == wording(left.path, "--resume")
    assert (spec.parent / "runs/job-2").is_dir()


def test_train_with_resume_exits_with_code_0_for_a_complete_run_and_2_for_a_changed_spec(
    spec: Path, left: RunDirectory, wording
) -> None:
    words = ["train", spec, "--runs-dir", spec.parent / "runs", "--resume"]
    assert rlrun(*words).exit_code == 0
    complete = rlrun(*words, "--json")
    assert complete.exit_code == 0
    assert [trial["status"] for trial in json.loads(complete.stdout)["trials"]] == ["TERMINATED"]
    assert complete.stderr.splitlines() == wording(left.path)
    spec.write_text(SPEC.replace("num_epochs: 1", "num_epochs: 2"))
    differs = rlrun(*words)
    assert (differs.exit_code, differs.stderr) == (2, wording(f"{spec}:6:66: job.config.num_epochs", left.path))


def test_json_progress_reports_an_existing_run_as_a_run_found_event(spec: Path, left: RunDirectory) -> None:
    words = ["train", spec, "--runs-dir", spec.parent / "runs", "--resume", "--progress", "json"]
    first, *others = map(json.loads, rlrun(*words).stdout.splitlines())
    assert first["event"] == "run_found"
    assert (first["directory"], first["is_over"]) == (str(left.path), False)
    assert first["trials"] == [{"name": "000-seed=0", "status": "PENDING"}]
    assert [event["event"] for event in others if event["event"].startswith("run_")] == ["run_started", "run_finished"]


def test_the_retry_failed_option_is_refused_without_the_resume_option(spec: Path, wording) -> None:
    refused = rlrun("train", spec, "--retry-failed")
    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (2, wording("--resume"))


def test_the_regress_command_resumes_an_interrupted_run_and_judges_a_complete_one(
    spec: Path, left: RunDirectory, wording
) -> None:
    words = ["regress", spec, "--runs-dir", spec.parent / "runs", "--resume"]
    first = rlrun(*words)
    assert first.exit_code == 0, first.output
    second = rlrun(*words)
    assert (second.exit_code, second.stdout) == (0, first.stdout)
    assert second.stderr.splitlines() == wording(left.path)
    assert [path.name for path in left.path.parent.iterdir()] == ["job"]
