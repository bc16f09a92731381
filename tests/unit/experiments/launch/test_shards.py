"""Shards: several processes that train the trials of one run, side by side or one after another."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rlrun
from rlrun.engine.messages.errors import ExitCode, Interrupted, RlrunError, SpecError, TrainingFailed, UsageError
from rlrun.experiments.runs.events import RunEvent, RunFound, RunStarted, TrialEvent, Watcher
from rlrun.experiments.runs.labels import Labels, read_labels
from rlrun.experiments.runs.run_directory import RUN_FILE, RunDirectory
from rlrun.experiments.runs.run_lock import Driver, drivers_of
from rlrun.experiments.runs.run_state import read_run_state
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.spec.experiment import Experiment
from rlrun.experiments.spec.load import parse_experiments
from rlrun.toys import ConstantReward
from tests.results import all_numbers

RUN_UNTIL_SIGNAL = Path(__file__).parents[3] / "integration" / "run_until_signal.py"

ENTRY: dict[str, Any] = {
    "algorithm": "ppo",
    "env": "CartPole-v1",
    "seeds": [3, 5],
    "stop": {"iteration": 4},
    "checkpoint": {"every": 2},
    "config": {
        "lr": {"grid_search": [1e-3, 3e-3]},
        "train_batch_size": 32,
        "min_env_steps_per_iteration": 0,
        "minibatch_size": 32,
        "num_epochs": 1,
        "num_envs_per_worker": 2,
        "model": {"hiddens": [4]},
    },
}


def sweep(**changes: Any) -> dict[str, Any]:
    return {"sweep": {**ENTRY, **changes}}


def one(**changes: Any) -> dict[str, Any]:
    """A spec with two trials."""
    return sweep(**{"config": {**ENTRY["config"], "lr": 1e-3}, **changes})


def rows_of(run: Path) -> dict[str, list[dict[str, Any]]]:
    return {trial.name: all_numbers(trial.results()) for trial in RunDirectory.open(run).results()}


def once(act: Callable[[], object]) -> Watcher:
    """Returns a watcher that acts at the first result."""
    acted = False

    def watch(event: RunEvent) -> None:
        nonlocal acted
        if isinstance(event, TrialEvent) and event.result is not None and not acted:
            acted = True
            act()

    return watch


def losing_power() -> None:
    raise KeyboardInterrupt


def heard(spec: Any, runs: Path, **options: Any) -> tuple[list[TrialResult], list[str]]:
    """Returns the trials of a call, and its messages about existing runs."""
    said: list[str] = []
    trials = rlrun.run(
        spec,
        runs_dir=runs,
        watch=lambda event: said.extend([event.text] if isinstance(event, RunFound) else []),
        **options,
    )
    return trials, said


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of the sweep in one process."""
    runs = tmp_path_factory.mktemp("whole")
    rlrun.run(sweep(), runs_dir=runs, executor="local")
    return runs / "sweep"


def test_shards_produce_the_trials_and_rows_of_the_whole_sweep(tmp_path: Path, whole: Path) -> None:
    names = RunDirectory.open(whole).table.trials
    table = b""
    for index in (2, 0, 1):
        trials = rlrun.run(sweep(), runs_dir=tmp_path, shard=(index, 3), tags=["grid"])
        assert [trial.name for trial in trials] == list(names[index::3])
        assert [trial.status for trial in trials] == ["TERMINATED"] * len(trials)
        written = (tmp_path / "sweep" / RUN_FILE).read_bytes()
        assert written == (table or written)
        table = written
    assert [path.name for path in tmp_path.iterdir()] == ["sweep"]
    assert rows_of(tmp_path / "sweep") == rows_of(whole)
    for name in names:
        spec = Path(name) / "spec.yaml"
        assert (tmp_path / "sweep" / spec).read_bytes() == (whole / spec).read_bytes()
    assert read_labels(tmp_path / "sweep") == Labels(("grid",))
    assert rlrun.resume(tmp_path / "sweep")[3].status == "TERMINATED"


def test_concurrent_shards_share_one_run(tmp_path: Path, whole: Path, wording) -> None:
    here, run = Driver(os.getpid(), os.uname().nodename), tmp_path / "sweep"

    def shard_1() -> None:
        rlrun.run(sweep(), runs_dir=tmp_path, shard=(1, 2), watch=once(look))

    def look() -> None:
        state = read_run_state(run)
        assert [(driver.pid, str(driver.shard)) for driver in state.drivers] == [(here.pid, "0/2"), (here.pid, "1/2")]
        assert [trial.status for trial in state.trials] == ["RUNNING", "RUNNING", "PENDING", "PENDING"]
        with wording.raised(UsageError, run, "1/2", pid=here.pid):
            rlrun.run(sweep(), runs_dir=tmp_path, shard=(1, 2))
        with wording.raised(UsageError, run, "0/2", "1/2", pid=here.pid):
            rlrun.resume(run)
        with wording.raised(UsageError, run, "0/2", "1/2", pid=here.pid):
            rlrun.run(sweep(), runs_dir=tmp_path, resume=True)

    rlrun.run(sweep(), runs_dir=tmp_path, shard=(0, 2), watch=once(shard_1))
    assert drivers_of(run) == ()
    assert rows_of(run) == rows_of(whole)


def test_shards_of_a_run_are_refused_while_the_whole_run_is_running(tmp_path: Path, wording) -> None:
    for index in range(2):
        with pytest.raises(Interrupted):
            rlrun.run(one(), runs_dir=tmp_path, shard=(index, 2), watch=once(losing_power))

    def also() -> None:
        with wording.raised(UsageError, tmp_path / "sweep", pid=os.getpid()):
            rlrun.run(one(), runs_dir=tmp_path, shard=(0, 2))

    trials = rlrun.resume(tmp_path / "sweep", executor="local", watch=once(also))
    assert [trial.status for trial in trials] == ["TERMINATED", "TERMINATED"]


def test_a_killed_shard_can_be_repeated_while_another_shard_is_running(tmp_path: Path, whole: Path, wording) -> None:
    words = [json.dumps(sweep()), str(tmp_path), "local", "7", "SIGKILL", "self", "1/2"]

    def kill_and_repeat() -> None:
        assert subprocess.run([sys.executable, RUN_UNTIL_SIGNAL, *words]).returncode == -signal.SIGKILL
        statuses = [trial.status for trial in read_run_state(tmp_path / "sweep").trials]
        assert statuses == ["RUNNING", "TERMINATED", "PENDING", "KILLED"]
        trials, said = heard(sweep(), tmp_path, shard=(1, 2))
        assert said == wording("1/2", "sweep")
        assert [trial.status for trial in trials] == ["TERMINATED", "TERMINATED"]

    rlrun.run(sweep(), runs_dir=tmp_path, shard=(0, 2), watch=once(kill_and_repeat))
    assert rows_of(tmp_path / "sweep") == rows_of(whole)


def test_an_interrupted_shard_says_that_repeating_its_command_continues_it(
    tmp_path: Path, whole: Path, wording
) -> None:
    with wording.raised(Interrupted, "1/2"):
        rlrun.run(sweep(), runs_dir=tmp_path, shard=(1, 2), watch=once(lambda: os.kill(os.getpid(), signal.SIGTERM)))
    started: list[bool] = []
    rlrun.run(
        sweep(),
        runs_dir=tmp_path,
        shard=(1, 2),
        watch=lambda event: started.extend([event.resumed] if isinstance(event, RunStarted) else []),
    )
    assert started == [True]
    trials, said = heard(sweep(), tmp_path, shard=(1, 2))
    assert said == wording("1/2")
    assert {trial.name: all_numbers(trial.results()) for trial in trials} == dict([*rows_of(whole).items()][1::2])
    assert [trial.status for trial in RunDirectory.open(tmp_path / "sweep").results()][::2] == ["PENDING", "PENDING"]


def test_if_two_shards_start_at_the_same_time_only_one_creates_the_run(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    creates, waits, created = threading.Event(), threading.Event(), []
    write_spec, flock = RunDirectory.write_spec, fcntl.flock

    def write_spec_slowly(run: RunDirectory, experiment: Experiment) -> None:
        created.append(threading.current_thread().name)
        creates.set()
        assert waits.wait(60)
        write_spec(run, experiment)

    def flock_noticed(descriptor: int, operation: int) -> None:
        if threading.current_thread().name == "second" and operation == fcntl.LOCK_EX:
            waits.set()
        flock(descriptor, operation)

    monkeypatch.setattr(RunDirectory, "write_spec", write_spec_slowly)
    monkeypatch.setattr(fcntl, "flock", flock_noticed)
    errors: list[RlrunError] = []

    def train(index: int) -> None:
        try:
            rlrun.run(sweep(), runs_dir=tmp_path, shard=(index, 2))
        except RlrunError as error:
            errors.append(error)

    threads = [threading.Thread(target=train, args=[index], name=("first", "second")[index]) for index in range(2)]
    threads[0].start()
    assert creates.wait(60)
    threads[1].start()
    for thread in threads:
        thread.join()
    assert (errors, created) == ([], ["first"])
    assert rows_of(tmp_path / "sweep") == rows_of(whole)


def test_a_shard_creates_the_run_if_the_first_shard_was_killed_while_creating_it(tmp_path: Path) -> None:
    (experiment,) = parse_experiments(one())
    left = RunDirectory.create(tmp_path, "sweep", experiment, experiment.trials(), "local")
    (left.path / RUN_FILE).unlink()
    for index in range(2):
        assert rlrun.run(one(), runs_dir=tmp_path, shard=(index, 2))[0].status == "TERMINATED"
    assert [path.name for path in tmp_path.iterdir()] == ["sweep"]


class Fragile(ConstantReward):
    """An env that raises an error until a file exists."""

    def __init__(self, sound: str) -> None:
        super().__init__()
        self._sound = Path(sound)

    def step(self, action: int) -> Any:
        if not self._sound.exists():
            raise RuntimeError("no ground")
        return super().step(action)


def test_continuing_a_failed_shard_fails_again_until_its_trials_are_retried(tmp_path: Path, wording) -> None:
    spec = one(env={"id": f"{__name__}:Fragile", "kwargs": {"sound": str(tmp_path / "sound")}})
    with pytest.raises(TrainingFailed) as first:
        rlrun.run(spec, runs_dir=tmp_path, shard=(1, 2))
    (tmp_path / "sound").touch()
    with pytest.raises(TrainingFailed) as second:
        rlrun.run(spec, runs_dir=tmp_path, shard=(1, 2))
    assert str(second.value) == str(first.value)
    assert first.value.exit_code == second.value.exit_code == ExitCode.TRAINING_FAILED
    (trial,), said = heard(spec, tmp_path, shard=(1, 2), retry_failed=True)
    assert (trial.status, said) == ("TERMINATED", wording("1/2"))


def test_a_shard_without_trials_says_that_it_has_none(tmp_path: Path, wording) -> None:
    trials, said = heard(one(), tmp_path, shard=(4, 5))
    assert (trials, said) == ([], wording("4/5"))


@pytest.mark.parametrize(
    "changes",
    [
        {"scheduler": {"asha": {"time_attr": "iteration"}}},
        {
            "num_samples": 2,
            "scheduler": {"pbt": {"interval_env_steps": 64, "mutations": {"lr": {"uniform": [0.0, 1.0]}}}},
        },
        {"searcher": "optuna", "num_samples": 2, "config": {**ENTRY["config"], "lr": {"uniform": [1e-4, 1e-3]}}},
        {"storage": "/mnt/storage"},
        {"config": {"num_envs_per_worker": "auto"}},
        {"stages": {"first": {}, "second": {}}},
    ],
    ids=["asha", "pbt", "optuna", "storage", "auto", "stages"],
)
def test_shards_of_experiments_that_need_all_trials_in_one_process_are_refused(
    tmp_path: Path, changes: dict[str, Any], wording
) -> None:
    with wording.raised(UsageError, "sweep", "shards"):
        rlrun.run(one(**changes), runs_dir=tmp_path / "runs", shard=(0, 2))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("options", [{"executor": "ray"}, {"address": "auto"}], ids=["ray", "address"])
def test_shards_with_ray_are_refused_because_ray_distributes_trials_itself(
    tmp_path: Path, options: Any, wording
) -> None:
    with wording.raised(UsageError, "--shard"):
        rlrun.run(sweep(), runs_dir=tmp_path, shard=(0, 2), **options)


def test_a_shard_whose_settings_or_number_of_shards_differ_from_the_first_shards_is_refused(
    tmp_path: Path, wording
) -> None:
    rlrun.run(one(), runs_dir=tmp_path, shard=(0, 2))
    before = (tmp_path / "sweep" / RUN_FILE).read_bytes()
    with wording.raised(UsageError, "0/3", tmp_path / "sweep"):
        rlrun.run(one(), runs_dir=tmp_path, shard=(0, 3))
    with wording.raised(SpecError, "stop.iteration", "checkpoint.every", "seeds", tmp_path / "sweep"):
        rlrun.run(one(stop={"iteration": 6}, checkpoint={"every": 1}, seeds=[3, 6]), runs_dir=tmp_path, shard=(1, 2))
    assert (tmp_path / "sweep" / RUN_FILE).read_bytes() == before
    assert RunDirectory.open(tmp_path / "sweep").results()[1].status == "PENDING"


def test_a_run_started_without_shards_cannot_be_continued_by_shards(tmp_path: Path, wording) -> None:
    rlrun.run(one(seeds=[3]), runs_dir=tmp_path)
    with wording.raised(UsageError, tmp_path / "sweep", "--shard"):
        rlrun.run(one(seeds=[3]), runs_dir=tmp_path, shard=(0, 2))
