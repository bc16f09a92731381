"""The recipes of `examples/slurm` run to completion, with the same rows as the command without Slurm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jobs import ROOT, Jobs, numbers, output

from rlrun.experiments.runs.run_directory import RunDirectory

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(3600)]

SPEC = """\
sweep:
  algorithm: ppo
  env: CartPole-v1
  seeds: 4
  stop: {env_steps: 6_000}
  config: {num_envs_per_worker: 4, train_batch_size: 512, minibatch_size: 128, min_env_steps_per_iteration: 0,
           model: {hiddens: [16]}}
"""

LONGER = ["--set", "stop.env_steps=200_000"]

Numbers = dict[str, list[dict[str, Any]]]


def begins_with(longer: Numbers, shorter: Numbers) -> bool:
    """Whether the rows of a longer run begin with those of a shorter one, except its last, which is marked as such."""
    return list(longer) == list(shorter) and all(
        longer[name][: len(rows) - 1] == rows[:-1] for name, rows in shorter.items()
    )


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("spec") / "sweep.yaml"
    file.write_text(SPEC)
    return file


@pytest.fixture(scope="module")
def calm(spec: Path) -> Path:
    """The run of the same spec without Slurm."""
    runs = spec.parent / "runs"
    command = [sys.executable, "-m", "rlrun", "train", str(spec), "--runs-dir", str(runs)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True)
    return runs / "sweep"


@pytest.mark.parametrize("recipe", ["one_node", "part_of_a_node", "requeue", "several_nodes", "array"])
def test_a_recipes_job_trains_to_the_end_and_matches_an_undisturbed_run(
    recipe: str, jobs: Jobs, spec: Path, calm: Path, tmp_path: Path
) -> None:
    job = jobs.submit(f"{recipe}.sbatch", [spec, "--runs-dir", tmp_path / "runs"], tmp_path)
    assert jobs.end(job, tmp_path).startswith("COMPLETED 0:0"), output(tmp_path)
    assert numbers(tmp_path / "runs/sweep") == numbers(calm)


def test_all_nodes_of_a_job_join_a_single_ray_cluster(jobs: Jobs, tmp_path: Path) -> None:
    wide = tmp_path / "wide.yaml"
    wide.write_text(SPEC.replace("seeds: 4", "seeds: 1").replace("config: {", "config: {num_workers: 5, "))
    job = jobs.submit("several_nodes.sbatch", [wide, "--runs-dir", tmp_path / "runs"], tmp_path, ["--nodes=3"])
    told = jobs.end(job, tmp_path)  # one process and five workers need the CPUs of all three nodes
    assert told.startswith("COMPLETED 0:0"), told
    (trial,) = RunDirectory.open(tmp_path / "runs/sweep").results()
    assert trial.status == "TERMINATED", told


@pytest.mark.parametrize("recipe", ["part_of_a_node", "several_nodes"])
def test_two_jobs_on_one_node_train_side_by_side(
    recipe: str, jobs: Jobs, spec: Path, calm: Path, tmp_path: Path
) -> None:
    shares = ["--nodelist=n1", "--cpus-per-task=1", "--nodes=1"]
    if recipe == "several_nodes":
        shares = ["--nodelist=n1,n2", "--cpus-per-task=1", "--exclusive=user"]
    both = [
        jobs.submit(f"{recipe}.sbatch", [spec, "--runs-dir", tmp_path / name, *LONGER], tmp_path, shares)
        for name in ("first", "second")
    ]
    for job, name in zip(both, ("first", "second"), strict=True):
        assert jobs.end(job, tmp_path).startswith("COMPLETED 0:0"), output(tmp_path)
        assert begins_with(numbers(tmp_path / name / "sweep"), numbers(calm))
    assert max(jobs.field(job, "StartTime") for job in both) < min(jobs.field(job, "EndTime") for job in both)


def test_a_killed_array_task_can_be_requeued_alone(jobs: Jobs, spec: Path, calm: Path, tmp_path: Path) -> None:
    job = jobs.submit("array.sbatch", [spec, "--runs-dir", tmp_path / "runs", *LONGER], tmp_path)
    rows = tmp_path / "runs/sweep/001-seed=1/result.json"
    jobs.wait(rows.exists, lambda: output(tmp_path))
    jobs.lab.command("scancel", "--signal=KILL", "--full", f"{job}_1")
    told = jobs.end(job, tmp_path)
    assert "COMPLETED" not in jobs.state(f"{job}_1"), told
    jobs.lab.command("scontrol", "requeue", f"{job}_1")
    jobs.wait(lambda: jobs.field(f"{job}_1", "Restarts") == "1", lambda: jobs.state(job))
    assert jobs.end(job, tmp_path).startswith("COMPLETED 0:0"), output(tmp_path)
    assert begins_with(numbers(tmp_path / "runs/sweep"), numbers(calm))
    assert all(trial.status == "TERMINATED" for trial in RunDirectory.open(tmp_path / "runs/sweep").results())


def test_a_job_array_that_begins_at_1_is_refused_and_the_message_gives_the_fix(
    jobs: Jobs, spec: Path, tmp_path: Path
) -> None:
    job = jobs.submit("array.sbatch", [spec, "--runs-dir", tmp_path / "runs"], tmp_path, ["--array=1-2"])
    told = jobs.end(job, tmp_path)
    assert jobs.field(job, "ExitCode") == "0:0,2:0", told
    assert "--array=0-1" in told


def test_a_requeued_job_without_resume_fails_instead_of_starting_over(jobs: Jobs, spec: Path, tmp_path: Path) -> None:
    words = ["-m", "rlrun", "train", spec, "--runs-dir", tmp_path / "runs", "--set", "stop.env_steps=10_000_000"]
    script = tmp_path / "job.sbatch"
    script.write_text(f"#!/bin/bash\nexec {sys.executable} {' '.join(map(str, words))}\n")
    job = jobs.submit(str(script), [], tmp_path, ["--requeue", "--open-mode=append"])
    run = tmp_path / "runs/sweep"
    jobs.wait(lambda: bool(list(run.glob("*/result.json"))), lambda: output(tmp_path))
    jobs.lab.command("scontrol", "requeue", job)
    jobs.wait(lambda: jobs.field(job, "Restarts") == "1", lambda: jobs.state(job))
    told = jobs.end(job, tmp_path)
    assert told.startswith("FAILED 2:0"), told
    assert "add --resume" in told
    assert [path.name for path in run.parent.iterdir()] == ["sweep"]
