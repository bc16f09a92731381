"""Runs that are interrupted or killed continue, and end as if nothing had happened."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rlrun
from rlrun.experiments.runs.events import RunEvent, TrialNote
from rlrun.experiments.trial.results import read_results
from rlrun.experiments.trial.trial_directory import TrialDirectory
from tests.results import all_numbers

ROOT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).with_name("run_until_signal.py")
TRIAL = "000-seed=0"


def spec(num_workers: int = 0, seeds: int = 1, iterations: int = 15) -> dict[str, Any]:
    return {
        "steady": {
            "algorithm": "ppo",
            "env": "CartPole-v1",
            "seeds": seeds,
            "stop": {"iteration": iterations},
            "config": {
                "train_batch_size": 64,
                "min_env_steps_per_iteration": 0,
                "minibatch_size": 32,
                "num_epochs": 2,
                "num_workers": num_workers,
                "num_envs_per_worker": 2,
                "model": {"hiddens": [8]},
                "normalize_observations": True,
                "normalize_rewards": True,
            },
            "checkpoint": {"every": 5},
        }
    }


SHELL = ["sh", "-c", 'trap : TERM; "$@"; code=$?; exit $code', "sh"]
"""Leads the process group in which a command runs, as a batch system's script does."""


def run_until(
    spec: dict[str, Any], runs: Path, executor: str, results: int, signal: str, target: str
) -> subprocess.CompletedProcess[str]:
    arguments = [json.dumps(spec), str(runs), executor, str(results), signal, target]
    return subprocess.run(
        [*(SHELL if target == "group" else []), sys.executable, CHILD, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=800,
    )


def uninterrupted(spec: dict[str, Any], runs: Path) -> list[list[dict[str, Any]]]:
    return [
        all_numbers(trial.results()) for trial in rlrun.run(spec, runs_dir=runs / "uninterrupted", executor="local")
    ]


@pytest.mark.usefixtures("running_ray")
@pytest.mark.parametrize(("num_workers", "executor"), [(0, "local"), pytest.param(1, "ray", marks=pytest.mark.chaos)])
def test_a_run_resumes_exactly_after_its_whole_process_tree_is_killed(
    tmp_path: Path, num_workers: int, executor: str
) -> None:
    killed = run_until(spec(num_workers), tmp_path, executor, 11, "SIGKILL", "tree")
    assert killed.returncode == -9, killed.stderr
    run = Path(shutil.move(tmp_path / "steady", tmp_path / "moved"))
    record = TrialDirectory(run / TRIAL).read_record()
    assert record is not None
    assert record.status == "RUNNING"
    assert len(read_results(run / TRIAL)) in (11, 12)

    events: list[RunEvent] = []
    (trial,) = rlrun.resume(run, watch=events.append)
    assert (trial.status, trial.last_result["iteration"]) == ("TERMINATED", 15)
    assert [all_numbers(trial.results())] == uninterrupted(spec(num_workers), tmp_path)
    notes = [event.text for event in events if isinstance(event, TrialNote)]
    assert len(notes) == 1
    # The newest checkpoint may not have reached the disk. The one before it was complete when the newest was begun.
    assert notes[0].startswith(("continuing after iteration 5, from ", "continuing after iteration 10, from "))
    assert "will differ" not in notes[0]
    times = [row["time_total_s"] for row in trial.results()]
    assert times == sorted(times)


def test_sigterm_saves_at_the_end_of_the_iteration_and_prints_the_resume_command(tmp_path: Path) -> None:
    interrupted = run_until(spec(), tmp_path, "local", 7, "SIGTERM", "self")
    assert interrupted.returncode == 130, interrupted.stderr
    assert interrupted.stdout == f"SIGTERM: stopped; continue with: rlrun resume {tmp_path}/steady\n"
    assert interrupted.stderr == ""
    assert (tmp_path / "steady" / TRIAL / "checkpoints/iteration_000007").is_dir()

    (trial,) = rlrun.resume(tmp_path / "steady")
    assert [all_numbers(trial.results())] == uninterrupted(spec(), tmp_path)


@pytest.mark.chaos
def test_sigterm_during_the_start_of_ray_prints_the_resume_command(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys, threading, time, rlrun\n"
        "from rlrun.engine.messages.errors import Interrupted\n"
        "from rlrun.experiments.runs.events import RunStarted\n"
        "def send(ours):\n"
        "    while signal.getsignal(signal.SIGTERM) is ours:\n"  # until Ray has installed its own handler
        "        time.sleep(0.001)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "def watch(event):\n"
        "    if isinstance(event, RunStarted):\n"
        "        threading.Thread(target=send, args=[signal.getsignal(signal.SIGTERM)], daemon=True).start()\n"
        "try:\n"
        f"    rlrun.run({spec(seeds=2)!r}, runs_dir={str(tmp_path)!r}, watch=watch)\n"
        "except Interrupted as interrupted:\n"
        "    print(interrupted)\n"
        "    sys.exit(interrupted.exit_code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=800)
    assert done.returncode == 130, done.stderr
    assert done.stdout == f"SIGTERM: stopped; continue with: rlrun resume {tmp_path}/steady\n"
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in listed


def test_sigterm_to_the_process_group_saves_running_trials_and_leaves_no_process(tmp_path: Path) -> None:
    sweep = spec(seeds=3)
    interrupted = run_until(sweep, tmp_path, "ray", 9, "SIGTERM", "group")
    assert interrupted.returncode == 130, interrupted.stderr
    assert interrupted.stdout == f"SIGTERM: stopped; continue with: rlrun resume {tmp_path}/steady\n"
    assert interrupted.stderr == ""
    run = tmp_path / "steady"
    statuses = [TrialDirectory(run / f"{seed:03}-seed={seed}").read_record() for seed in range(3)]
    assert {record.status for record in statuses if record} <= {"INTERRUPTED", "PENDING"}
    assert [record.status for record in statuses if record].count("INTERRUPTED") >= 1
    assert "Started a local Ray instance" in (run / "driver.log").read_text()
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in listed

    trials = rlrun.resume(run, executor="local")
    assert {trial.status for trial in trials} == {"TERMINATED"}
    assert [all_numbers(trial.results()) for trial in trials] == uninterrupted(sweep, tmp_path)
