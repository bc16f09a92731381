"""Numbers of workers and envs that are measured before the trials of a run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from rlrun.cli.watch import RunWatcher
from rlrun.engine.messages.errors import TrainingFailed
from rlrun.experiments.launch import timings
from rlrun.experiments.launch.run import resume, room_for_workers, run, with_measured_settings
from rlrun.experiments.launch.timings import Timing, chosen
from rlrun.experiments.runs.events import RunEvent, RunMeasured, RunMeasuring
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.spec.load import parse_experiments


def groundless() -> None:
    """An env factory that raises."""
    raise RuntimeError("no ground")


SPEC: dict[str, Any] = {
    "algorithm": "ppo",
    "env": "CartPole-v1",
    "stop": {"iteration": 1},
    "config": {
        "num_envs_per_worker": "auto",
        "train_batch_size": 512,
        "minibatch_size": 512,
        "num_epochs": 1,
        "min_env_steps_per_iteration": 0,
        "compile": False,
    },
}


@pytest.fixture(autouse=True)
def windows_of_one_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timings, "WINDOW_S", 0.0)


def test_the_smallest_of_several_nearly_equally_fast_settings_is_chosen() -> None:
    fast = Timing(4, 16, (990.0, 1000.0, 1010.0))
    assert chosen([fast, Timing(0, 64, (880.0, 890.0, 895.0))]) == fast  # its fastest window is over 10% slower
    near = Timing(0, 64, (500.0, 800.0, 900.0))  # so noisy that it may be as fast as the other
    assert chosen([fast, near]) == near
    assert chosen([fast, near, Timing(0, 32, (901.0,))]).num_envs_per_worker == 32
    assert chosen([fast, Timing(1, 64, (2000.0,)), Timing(8, 8, (2100.0,))]).num_workers == 1


def test_measured_settings_are_stored_as_numbers_and_reused_by_a_resume(tmp_path: Path) -> None:
    events: list[RunEvent] = []
    (trial,) = run({"a": SPEC}, runs_dir=tmp_path, watch=events.append)
    assert isinstance(events[0], RunMeasuring)
    measured = events[1]
    assert isinstance(measured, RunMeasured)
    assert (measured.timed, measured.possible) == (2, 2)
    envs = measured.numbers["num_envs_per_worker"]
    assert envs in (8, 16)
    assert measured.numbers == {"num_envs_per_worker": envs}
    config = RunDirectory.open(tmp_path / "a").experiment().to_data()["config"]
    assert (config["num_envs_per_worker"], config["train_batch_size"]) == (envs, 512)
    again: list[RunEvent] = []
    (extended,) = resume(tmp_path / "a", extend={"iteration": 2}, watch=again.append)
    assert not [event for event in again if isinstance(event, RunMeasuring | RunMeasured)]
    assert 0 < trial.env_steps < extended.env_steps
    assert RunDirectory.open(tmp_path / "a").experiment().to_data()["config"] == config
    again.clear()
    longer = {**SPEC, "stop": {"iteration": 3}}
    (repeated,) = run({"a": longer}, runs_dir=tmp_path, resume=True, watch=again.append)
    assert not [event for event in again if isinstance(event, RunMeasuring | RunMeasured)]
    assert repeated.env_steps > extended.env_steps


def test_a_clock_that_does_not_advance_stops_the_measurement_with_an_error(
    monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    now = time.perf_counter()
    monkeypatch.setattr(timings, "WINDOW_S", 1.0)
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    (trial,) = parse_experiments({"a": SPEC})[0].trials()
    with wording.raised(TrainingFailed):
        list(timings.time_settings(trial, [(0, 8)]))


def test_settings_of_trials_that_run_together_are_measured_with_each_trials_share_of_the_cpus(
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = {**SPEC["config"], "num_workers": "auto"}
    (experiment,) = parse_experiments({"a": {**SPEC, "config": config, "seeds": 2000}})
    trial = experiment.first_trial()
    assert room_for_workers(trial, 1) >= 1
    assert room_for_workers(trial, 2000) == 0
    with RunWatcher() as watch:
        measured = with_measured_settings(experiment, None, None, None, watch)
    assert measured.config.num_workers == 0
    assert measured.config.num_envs_per_worker in (8, 16)
    said = capsys.readouterr().err
    assert "a: measuring num_workers and num_envs_per_worker" in said
    assert "settings timed); results now depend on this machine" in said


def test_an_env_error_during_measurement_is_reported_and_leaves_no_run(tmp_path: Path) -> None:
    spec = {**SPEC, "env": f"{__name__}:groundless"}
    with pytest.raises(TrainingFailed, match="no ground"):
        run({"a": spec}, runs_dir=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
