"""`rlrun status` from another shell."""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rlrun.cli.main import cli
from rlrun.experiments.runs import copy_owner, run_state
from rlrun.experiments.runs.copy_owner import OWNERS, CopyOwner, OwnerRecord, owner_of
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.runs.run_state import RunState, read_run_state
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial.results import ResultWriter
from rlrun.experiments.trial.trial_directory import TrialStatus

SPEC = {"algorithm": "ppo", "env": "CartPole-v1", "seeds": 3, "stop": {"env_steps": 1000}}


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    (experiment,) = parse_experiments({"pole": SPEC})
    return RunDirectory.create(tmp_path, "pole", experiment, experiment.trials(), "ray")


def write(run: RunDirectory, number: int, status: TrialStatus, *, error: str = "") -> None:
    name = run.table.trials[number]
    writer = ResultWriter(run.path / name)
    row = {"iteration": 9, "env_steps": 500, "episode_return_mean": 10.0 * (number + 1), "env_steps_per_s": 100.0}
    writer.write({**row, "time_total_s": 60.0})
    writer.close()
    run.trial_directory(name).write_record(replace(run.record(name), status=status, error=error))


def status(run: RunDirectory, *words: str) -> Result:
    return CliRunner().invoke(cli, ["status", "pole", "--runs-dir", str(run.path.parent), *words])


def test_the_status_of_a_killed_run_shows_how_to_resume_it(run: RunDirectory, wording) -> None:
    write(run, 0, "TERMINATED")
    write(run, 1, "RUNNING")
    for number, name in enumerate(run.table.trials):
        os.utime(run.path / name / "trial.json", (1_000_000_000 + number,) * 2)
        if number < 2:
            os.utime(run.path / name / "result.json", (1_000_000_000 + number,) * 2)
    lines = status(run).stdout.splitlines()
    assert lines[0].startswith("pole: no process ")
    assert lines[1:] == wording(run.path, "steps/s", "001", "500")


def test_a_trial_that_outlives_its_driver_is_shown_as_saving_without_a_resume_command(run: RunDirectory) -> None:
    write(run, 0, "RUNNING")
    directory = run.trial_directory(run.table.trials[0])
    directory.claim()
    try:
        done = status(run)
    finally:
        directory.release()
    assert done.stdout.startswith("pole: its driver has ended, but ")
    assert "still saving, last" in done.stdout
    assert "resume" not in done.stdout


def test_the_status_of_an_ended_run_shows_no_resume_command(run: RunDirectory) -> None:
    write(run, 0, "ERROR", error="Traceback\n  ...\nValueError: too deep")
    for number in (1, 2):
        write(run, number, "TERMINATED")
    stdout = status(run).stdout
    assert stdout.startswith("pole: ended, last change ")
    assert "000-seed=0: ValueError: too deep\n" in stdout
    assert "rlrun resume" not in stdout


def test_the_status_of_an_active_run_shows_its_driver_and_the_time_left(run: RunDirectory, wording) -> None:
    write(run, 0, "RUNNING")
    directory = run.trial_directory(run.table.trials[0])
    directory.claim()
    try:
        with run.locked():
            result = status(run)
            data = json.loads(status(run, "--json").stdout)
    finally:
        directory.release()
    assert result.stdout.startswith(f"pole: process {os.getpid()} ")
    # At most a minute for the first trial, and two minutes for each of the two that follow.
    assert "; about 5 min left\n" in result.stdout or "; about 4 min left\n" in result.stdout
    assert data["drivers"] == [{"pid": os.getpid(), "host": platform.node(), "shard": None}]
    assert 240 <= data["seconds_left"] <= 300
    assert data["resume"] is None
    assert data["waiting"] == wording("001-seed=1", "1 CPU")
    assert data["waiting"] in result.stdout.splitlines()
    assert [trial["status"] for trial in data["trials"]] == ["RUNNING", "PENDING", "PENDING"]
    assert data["trials"][0]["return"] == 10.0
    assert data["best"] == {"metric": "episode_return_mean", "value": 10.0, "what": wording(), "kind": ""}


def test_running_trials_are_listed_with_their_nodes_and_processes(run: RunDirectory) -> None:
    name = run.table.trials[0]
    write(run, 0, "RUNNING")
    run.trial_directory(name).write_record(replace(run.record(name), host="node-7", pid=4711))
    with run.locked():
        result = status(run)
        data = json.loads(status(run, "--json").stdout)
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("000 ")]
    assert line.split()[1] == "RUNNING"
    assert line.endswith("node-7:4711")
    assert data["trials"][0]["where"] == "node-7:4711"


def test_a_run_is_watched_until_its_driver_ends(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlrun.cli.status.REFRESH_S", 0.05)
    write(run, 0, "TERMINATED")
    locked, watched = threading.Event(), threading.Event()

    def drive() -> None:
        with run.locked():
            locked.set()
            watched.wait(600)

    def look(directory: Path) -> RunState:
        state = read_run_state(directory)
        watched.set()
        return state

    monkeypatch.setattr(run_state, "read_run_state", look)
    driver = threading.Thread(target=drive)
    driver.start()
    locked.wait(600)
    lines = status(run, "--watch").stdout.splitlines()
    driver.join()
    assert lines[0].startswith(f"pole: process {os.getpid()} ")
    assert "3 trials: 2 pending, 1 terminated" in lines[0]
    assert any(line.startswith("pole: no process ") for line in lines)
    assert lines[-1].startswith("Resume it: ")


def test_status_lists_damage_below_the_table_and_exits_with_code_5(run: RunDirectory, wording) -> None:
    for number in range(3):
        (run.path / run.table.trials[number] / "trial.json").write_text("{")
    (run.path / "run.json").write_text("[]")
    result = status(run)
    assert result.exit_code == 5
    assert result.stdout.count("trial.json: cannot parse") == 3
    assert wording("run.json") in result.stdout.splitlines()
    assert "rlrun resume" not in result.stdout
    assert result.stderr == wording(run.path)
    told = status(run, "--json")
    assert told.exit_code == 5
    assert json.loads(told.stdout)["problem"] == wording("run.json")


def test_the_options_watch_and_json_cannot_be_combined(run: RunDirectory) -> None:
    result = status(run, "--watch", "--json")
    assert result.exit_code == 2
    assert "--watch and --json cannot be combined; leave one out" in result.stderr


def test_an_unknown_run_is_refused_with_the_closest_name(run: RunDirectory) -> None:
    result = CliRunner().invoke(cli, ["status", "poel", "--runs-dir", str(run.path.parent)])
    assert result.exit_code == 2
    assert "did you mean 'pole'?" in result.stderr


def test_the_owner_of_the_stored_copy_is_shown_if_the_run_has_no_process_on_this_machine(
    run: RunDirectory, tmp_path: Path, wording
) -> None:
    run.write_table(replace(run.table, copy=f"{tmp_path}/storage/pole"))
    with CopyOwner(f"{tmp_path}/storage/pole", None):
        owner = owner_of(f"{tmp_path}/storage/pole")
        assert owner is not None
        record = owner.record
        names = {"host": record.host, "pid": record.pid, "since": record.started}
        assert wording(*names.values(), tmp_path=tmp_path, **names) in status(run).stdout.splitlines()
        told = json.loads(status(run, "--json").stdout)
        del told["owner"]["renewed_s_ago"]
        assert told["owner"] == {"host": record.host, "pid": record.pid, "started": record.started, "generation": 1}
    assert json.loads(status(run, "--json").stdout)["owner"] is None
    (tmp_path / "storage").rmdir()
    (tmp_path / "storage").write_text("in the way")
    assert json.loads(status(run, "--json").stdout)["owner"] is None


@pytest.mark.parametrize(("silent_s", "is_resumed"), [(-1e6, False), (copy_owner.GONE_AFTER_S, True)])
def test_no_resume_command_is_shown_while_the_owner_of_the_stored_copy_renews_its_record(
    run: RunDirectory, tmp_path: Path, silent_s: float, is_resumed: bool
) -> None:
    write(run, 0, "INTERRUPTED")
    run.write_table(replace(run.table, copy=f"{tmp_path}/storage/pole"))
    elsewhere = OwnerRecord("far-away", 4711, "another boot", "2026-01-02T03:04:05+00:00", 1)
    record = tmp_path / "storage/pole" / OWNERS / "000001-00000000000000aa.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps(asdict(elsewhere)))
    renewed = time.time() - silent_s
    os.utime(record, (renewed, renewed))
    stdout, told = status(run).stdout, json.loads(status(run, "--json").stdout)
    assert "process 4711 on far-away" in stdout
    assert ("rlrun resume" in stdout, told["resume"] is not None) == (is_resumed, is_resumed)
    assert told["owner"]["renewed_s_ago"] >= max(0.0, silent_s)
