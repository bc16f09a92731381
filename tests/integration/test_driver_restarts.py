"""The command's parent process restarts a killed driver, which continues the runs that it had begun."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

import rlrun
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.trial.results import read_results
from tests.results import all_numbers

ROOT = Path(__file__).resolve().parents[2]


def chain(**kwargs: Any) -> dict[str, Any]:
    """Two stages; the env of the second one kills its process."""
    config = {
        "train_batch_size": 64,
        "minibatch_size": 64,
        "min_env_steps_per_iteration": 0,
        "num_epochs": 1,
        "num_envs_per_worker": 2,
        "model": {"hiddens": [4]},
    }
    deadly = {"id": "strange_envs:DiesWithItsSpec", "kwargs": kwargs}
    return {
        "pole": {
            "algorithm": "ppo",
            "stop": {"iteration": 8},
            "checkpoint": {"every": 2},
            "failure": {"driver_restarts": 1},
            "config": config,
            "stages": {"first": {"env": "CartPole-v1"}, "second": {"env": deadly}},
        }
    }


def train(folder: Path, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    spec = folder / "spec.yaml"
    spec.write_text(yaml.safe_dump(chain(spec=str(spec), **kwargs)))
    return subprocess.run(
        [sys.executable, "-m", "rlrun", "train", str(spec), "--runs-dir", "runs", "--quiet"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{Path(__file__).parent}"},
        capture_output=True,
        text=True,
        timeout=800,
    )


def rows(run: Path) -> list[Any]:
    return [all_numbers(read_results(run / name)) for name in RunDirectory.open(run).table.trials]


def test_a_killed_driver_is_restarted_and_continues_its_runs_even_if_their_spec_is_gone(tmp_path: Path) -> None:
    for stage in ("first", "second"):
        (tmp_path / "runs" / f"pole.{stage}").mkdir(parents=True)  # taken names, so the runs get other ones
    done = train(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("; restart ") == done.stderr.count("1 of 1") == 1
    assert sorted(path.name for path in (tmp_path / "runs").iterdir() if any(path.iterdir())) == [
        "pole.first-2",
        "pole.second-2",
    ]
    calm = rlrun.run(chain(spec=str(tmp_path / "spec.yaml")), runs_dir=tmp_path / "calm")
    assert rows(tmp_path / "runs" / "pole.second-2") == [all_numbers(read_results(calm[1].directory))]


def test_after_the_last_restart_the_drivers_exit_code_and_the_resume_command_are_reported(
    tmp_path: Path, wording
) -> None:
    done = train(tmp_path, removes=False)
    assert done.returncode == -9
    assert done.stderr.splitlines()[-1] == wording()
