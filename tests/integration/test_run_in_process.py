"""Runs in the caller's own process: what is written, reported, resumed and not imported."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rlrun
from rlrun.engine.messages.errors import RunDamaged, UsageError
from rlrun.experiments.runs.events import RunEvent, RunFinished, RunFound, RunStarted, TrialEvent, TrialNote
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.trial.trial_directory import TrialDirectory

ROOT = Path(__file__).resolve().parents[2]


def entry(iterations: int = 3, **settings: Any) -> dict[str, Any]:
    config = {
        "train_batch_size": 64,
        "min_env_steps_per_iteration": 0,
        "minibatch_size": 32,
        "num_epochs": 1,
        "num_envs_per_worker": 4,
    }
    return {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "stop": {"iteration": iterations},
        "config": {**config, "model": {"hiddens": [8]}},
        **settings,
    }


LONE = """
import sys
from click.testing import CliRunner
import rlrun
from rlrun.cli.main import cli

spec, runs = sys.argv[1:]
rlrun.run(spec, runs_dir=runs)
done = CliRunner().invoke(cli, ["profile", "-f", spec, "--seconds", "0.1"])
print(done.exit_code, "local worker" in done.output, "ray" in sys.modules)
"""


def test_running_or_profiling_a_single_trial_does_not_import_ray(tmp_path: Path) -> None:
    (tmp_path / "lone.yaml").write_text(json.dumps({"lone": entry()}))
    words = [sys.executable, "-c", LONE, str(tmp_path / "lone.yaml"), str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0 True False\n", "")
    assert sorted(path.name for path in (tmp_path / "lone").iterdir()) == [
        ".lock",
        "000-seed=0",
        "run.json",
        "spec.yaml",
    ]


def test_the_watcher_receives_all_events_in_order(tmp_path: Path) -> None:
    events: list[RunEvent] = []
    (trial,) = rlrun.run({"told": entry()}, runs_dir=tmp_path, watch=events.append)
    begin, *told, end = events
    assert isinstance(begin, RunStarted)
    assert (begin.experiment, begin.directory, begin.executor) == ("told", tmp_path / "told", "local")
    assert (begin.uses_ray, begin.resumed, begin.terminal) == (False, False, sys.stdout)
    assert [spec.name for spec in begin.trials] == ["000-seed=0"]
    assert told == [
        TrialEvent("000-seed=0", "RUNNING", place=f"{platform.node()}:{os.getpid()}"),
        *(TrialEvent("000-seed=0", "RUNNING", row) for row in trial.results()),
        TrialEvent("000-seed=0", "TERMINATED", stop_reason="iteration 3 >= 3"),
    ]
    assert isinstance(end, RunFinished)
    assert end.trials == (trial,)


def test_name_seed_and_overrides_take_precedence_over_the_spec(tmp_path: Path) -> None:
    (trial,) = rlrun.run({"a": entry()}, runs_dir=tmp_path, name="b", seed=7, overrides=["stop.iteration=1"])
    assert (trial.directory, trial.last_result["iteration"]) == (tmp_path / "b/000-seed=7", 1)


def test_each_of_several_experiments_has_its_own_run(tmp_path: Path) -> None:
    trials = rlrun.run([{"a": entry(1), "b": entry(1, seeds=2)}], runs_dir=tmp_path, executor="local")
    assert [str(trial.directory.relative_to(tmp_path)) for trial in trials] == [
        "a/000-seed=0",
        "b/000-seed=0",
        "b/001-seed=1",
    ]


def test_a_run_starts_from_another_runs_weights_and_records_its_checkpoint(tmp_path: Path) -> None:
    (donor,) = rlrun.run({"donor": entry()}, runs_dir=tmp_path)
    (fresh,) = rlrun.run({"fresh": entry(1)}, runs_dir=tmp_path)
    (taker,) = rlrun.run({"taker": entry(1)}, runs_dir=tmp_path, from_checkpoint=donor.checkpoint)
    assert fresh.last_result["learner/policy_loss"] != taker.last_result["learner/policy_loss"]
    assert fresh.last_result["env_steps"] == taker.last_result["env_steps"]
    record = TrialDirectory(taker.directory).read_record()
    assert record is not None
    assert record.from_checkpoint == str(donor.checkpoint)


def test_resuming_a_finished_run_only_returns_its_results(tmp_path: Path) -> None:
    trials = rlrun.run({"done": entry()}, runs_dir=tmp_path)
    events: list[RunEvent] = []
    assert rlrun.resume(tmp_path / "done", watch=events.append) == trials
    (event,) = events
    assert isinstance(event, RunFound)
    assert event.is_over


def test_damaged_trial_json_files_are_named_and_once_they_are_removed_their_trials_resume(tmp_path: Path) -> None:
    finished = rlrun.run({"damaged": entry(seeds=3)}, runs_dir=tmp_path, executor="local")
    run = tmp_path / "damaged"
    files = [trial.directory / "trial.json" for trial in finished]
    whole = [file.read_text() for file in files]
    for file in files[:2]:
        file.write_text("{")
    with pytest.raises(RunDamaged) as raised:
        rlrun.resume(run, executor="local")
    told = str(raised.value).splitlines()
    assert [line.partition(": cannot parse")[0] for line in told] == [str(file) for file in files[:2]]
    assert all(line.endswith("remove the file to resume the trial from its newest checkpoint") for line in told)
    assert [file.read_text() for file in files] == ["{", "{", whole[2]]

    for file in files[:2]:
        file.unlink()
    assert [trial.status for trial in rlrun.resume(run, executor="local", extend={"iteration": 4})] == [
        "TERMINATED"
    ] * 3
    assert [len(trial.results()) for trial in RunDirectory.open(run).results()] == [4, 4, 4]


def test_extending_a_run_reports_the_schedules_that_ended_at_the_original_stop(tmp_path: Path) -> None:
    ending = entry(stop={"env_steps": 128})
    ending["config"] |= {"lr": [[0, 1e-3], ["end", 1e-4]], "entropy_coeff": [[0, 0.01], [64, 0.0]]}
    rlrun.run({"longer": ending}, runs_dir=tmp_path)
    events: list[RunEvent] = []
    (trial,) = rlrun.resume(tmp_path / "longer", extend={"env_steps": 256}, watch=events.append)
    assert trial.results()[-1]["learner/lr"] == pytest.approx(1e-4)
    told = "config.lr: the schedule ended at 128 env steps, the original end of the run, and stays at 0.0001 after that"
    assert [event.text for event in events if isinstance(event, TrialNote)].count(told) == 1
    assert not any("entropy_coeff" in event.text for event in events if isinstance(event, TrialNote))


def test_an_exception_in_the_watcher_interrupts_the_run_but_it_can_be_resumed(tmp_path: Path, wording) -> None:
    def watch(event: RunEvent) -> None:
        if isinstance(event, TrialEvent) and event.result and event.result["iteration"] == 2:
            raise ArithmeticError("the view is broken")

    with wording.raised(ArithmeticError):
        rlrun.run({"seen": entry(4)}, runs_dir=tmp_path, watch=watch)
    assert [result.status for result in RunDirectory.open(tmp_path / "seen").results()] == ["INTERRUPTED"]

    (trial,) = rlrun.resume(tmp_path / "seen")
    assert trial.status == "TERMINATED"
    assert [row["iteration"] for row in trial.results()] == [1, 2, 3, 4]


def test_a_run_in_progress_cannot_be_resumed(tmp_path: Path, wording) -> None:
    def watch(event: RunEvent) -> None:
        if isinstance(event, RunStarted):
            with wording.raised(UsageError, pid=os.getpid()):
                rlrun.resume(event.directory)

    assert rlrun.run({"busy": entry(1)}, runs_dir=tmp_path, watch=watch)[0].status == "TERMINATED"


@pytest.mark.usefixtures("running_ray")
def test_a_local_trial_with_remote_workers_uses_ray_only_for_the_workers(tmp_path: Path) -> None:
    events: list[RunEvent] = []
    spec = {**entry(), "config": {**entry()["config"], "num_workers": 2}}
    (trial,) = rlrun.run({"w": spec}, runs_dir=tmp_path, executor="local", watch=events.append)
    assert trial.last_result["iteration"] == 3
    assert isinstance(events[0], RunStarted)
    assert (events[0].executor, events[0].uses_ray) == ("local", True)
