"""A run's state is read from its files alone, whoever runs it and whatever is damaged."""

from __future__ import annotations

import fcntl
import os
import platform
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.runs.run_lock import Driver, drivers_of
from rlrun.experiments.runs.run_state import RunState, read_run_state
from rlrun.experiments.runs.shard import Shard
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial.results import ResultWriter
from rlrun.experiments.trial.trial_directory import TrialRecord, TrialStatus

FIRST, SECOND = "000-lr=0.001-seed=0", "001-lr=0.001-seed=1"


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    spec = {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "seeds": 2,
        "stop": {"env_steps": 1000, "episode_return_mean": 475},
        "config": {"lr": {"grid_search": [1e-3, 3e-4]}},
    }
    (experiment,) = parse_experiments({"sweep": spec})
    return RunDirectory.create(tmp_path, "sweep", experiment, experiment.trials(), "ray")


def write(run: RunDirectory, name: str, status: TrialStatus, *returns: float | None, **more: Any) -> None:
    writer = ResultWriter(run.path / name)
    for iteration, mean in enumerate(returns, start=1):
        writer.write({"iteration": iteration, "env_steps": 100 * iteration, "episode_return_mean": mean})
    writer.close()
    directory = run.trial_directory(name)
    directory.write_record(replace(run.record(name), status=status, **more))


def first(state: RunState) -> TrialResult:
    return next(trial for trial in state.trials if trial.name == FIRST)


def test_the_state_of_a_run_lists_its_trials_in_order(run: RunDirectory) -> None:
    write(run, FIRST, "TERMINATED", 1.0, 3.0, 2.0, best_return=3.0, iteration=3, env_steps=300)
    state = read_run_state(run.path)
    assert (state.experiment, state.drivers, state.problem) == ("sweep", (), "")
    assert state.stop == {"env_steps": 1000.0, "episode_return_mean": 475.0}
    assert [trial.name for trial in state.trials] == list(run.table.trials)
    assert [trial.configuration for trial in state.trials] == [0, 0, 1, 1]
    assert [trial.status for trial in state.trials] == ["TERMINATED", "PENDING", "PENDING", "PENDING"]
    trial = first(state)
    assert (trial.seed, trial.params, trial.env_steps, trial.best_return) == (0, {"lr": 0.001}, 300, 3.0)
    assert trial.last_result["episode_return_mean"] == 2.0
    assert not state.is_over


def test_a_process_that_only_looks_at_the_lock_of_a_run_does_not_keep_others_from_locking_it(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for shard in (None, Shard(1, 2)):
        with RunDirectory(run.path, run.table, shard).locked():
            pass
        file = run.path / (".lock" if shard is None else ".lock-1-of-2")
        look = os.open(file, os.O_RDONLY)
        fcntl.flock(look, fcntl.LOCK_SH)
        looks = [look]
        monkeypatch.setattr(time, "sleep", lambda _, looks=looks: os.close(looks.pop()))
        with RunDirectory(run.path, run.table, shard).locked():
            assert (looks, [driver.shard for driver in drivers_of(run.path)]) == ([], [shard])


def test_the_driver_of_a_run_is_the_process_that_holds_its_lock(run: RunDirectory) -> None:
    assert drivers_of(run.path) == ()
    with run.locked():
        assert drivers_of(run.path) == (Driver(os.getpid(), platform.node()),)
        assert read_run_state(run.path).drivers == drivers_of(run.path)
    assert drivers_of(run.path) == ()
    with run.locked():  # reading has left no lock behind
        pass


@pytest.mark.parametrize(
    ("status", "host", "alone", "driven"),
    [
        ("RUNNING", platform.node(), "KILLED", "PENDING"),
        ("RUNNING", "another-machine", "KILLED", "RUNNING"),
        ("PAUSED", "", "KILLED", "PAUSED"),
        ("INTERRUPTED", "", "INTERRUPTED", "PENDING"),
        ("PENDING", "", "PENDING", "PENDING"),
        ("ERROR", "", "ERROR", "ERROR"),
        ("TERMINATED", "", "TERMINATED", "TERMINATED"),
    ],
)
def test_a_trials_status_combines_trial_json_with_whether_a_driver_is_alive(
    run: RunDirectory, status: TrialStatus, host: str, alone: str, driven: str
) -> None:
    write(run, FIRST, status, host=host, pid=7 if status == "RUNNING" else None)
    assert first(read_run_state(run.path)).status == alone
    with run.locked():
        assert first(read_run_state(run.path)).status == driven


def test_a_trial_claimed_by_a_process_counts_as_running(run: RunDirectory) -> None:
    write(run, FIRST, "RUNNING", 1.0, host="here", pid=7)
    directory = run.trial_directory(FIRST)
    directory.claim()
    try:
        trial = first(read_run_state(run.path))
    finally:
        directory.release()
    assert (trial.status, trial.place) == ("RUNNING", "here:7")


def test_the_best_return_of_a_running_trial_includes_rows_after_its_last_checkpoint(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(run, FIRST, "RUNNING", 1.0, 9.0, 5.0, best_return=1.0, iteration=1)
    assert first(read_run_state(run.path)).best_return == 9.0
    monkeypatch.setattr("rlrun.experiments.runs.trial_result.SMALL_BYTES", 0)  # makes every file too long to be read
    assert first(read_run_state(run.path)).best_return == 5.0
    write(run, SECOND, "RUNNING", None, best_return=None)
    assert read_run_state(run.path).trials[1].best_return is None


def test_the_best_return_of_a_trial_from_an_earlier_version_is_read_from_its_rows(run: RunDirectory) -> None:
    write(run, FIRST, "TERMINATED", 1.0, 9.0, 5.0)
    assert first(read_run_state(run.path)).best_return == 9.0


def test_population_members_are_listed_with_their_current_settings(run: RunDirectory) -> None:
    directory = run.trial_directory(FIRST)
    directory.write_spec({**directory.read_spec(), "population": 3})
    write(run, FIRST, "TERMINATED", 1.0, params={"lr": 0.5})
    trial = first(read_run_state(run.path))
    assert (trial.population, trial.params) == (3, {"lr": 0.5})


def test_damaged_files_are_reported_and_the_rest_of_the_run_is_read(run: RunDirectory, wording) -> None:
    write(run, SECOND, "TERMINATED", 4.0)
    (run.path / FIRST / "trial.json").write_text('{"name": "x", "status": "RUNNING", "seed": "one"}')
    (run.path / FIRST / "spec.yaml").write_bytes(b"\xff\xfe")
    (run.path / "run.json").write_text("{")
    state = read_run_state(run.path)
    assert state.problem == wording(run.path, "/run.json")
    assert state.experiment == ""
    assert [trial.status for trial in state.trials] == ["DAMAGED", "TERMINATED", "PENDING", "PENDING"]
    found = "cannot parse: seed: Input should be a valid integer, unable to parse string as an integer"
    assert first(state).error == f"{run.path}/{FIRST}/trial.json: {found}"
    assert state.stop == {}
    assert state.trials[1].best_return == 4.0


def test_a_trial_whose_trial_json_is_missing_counts_as_damaged(run: RunDirectory, wording) -> None:
    (run.path / FIRST / "trial.json").unlink()
    assert first(read_run_state(run.path)) == TrialResult(
        FIRST,
        run.path / FIRST,
        "sweep",
        "DAMAGED",
        error=wording(run.path, FIRST, "trial.json"),
        configuration=0,
    )


def test_reading_the_state_of_a_run_writes_nothing_and_imports_no_user_code(run: RunDirectory) -> None:
    spec = run.trial_directory(FIRST)
    spec.write_spec({**spec.read_spec(), "algorithm": "no_such_module:Nothing"})
    write(run, FIRST, "RUNNING", 1.0)
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    assert first(read_run_state(run.path)).status == "KILLED"
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before


def test_a_trial_record_of_an_earlier_version_can_be_read(run: RunDirectory) -> None:
    (run.path / FIRST / "trial.json").write_text('{"name": "x", "status": "TERMINATED", "seed": 0}')
    assert run.record(FIRST) == TrialRecord("x", "TERMINATED", 0)
    assert first(read_run_state(run.path)).status == "TERMINATED"
