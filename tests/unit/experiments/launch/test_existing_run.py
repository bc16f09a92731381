"""The same command again: how it continues the run of its last process, or refuses to."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rlrun
from rlrun.engine.envs.vector_env import EnvStartFailed
from rlrun.engine.messages.errors import (
    ExitCode,
    Interrupted,
    OutOfResources,
    RunDamaged,
    SpecError,
    TrainingFailed,
    UsageError,
)
from rlrun.experiments.launch.existing_run import remaining_part
from rlrun.experiments.launch.run import continue_runs
from rlrun.experiments.runs.events import RunEvent, RunFound, RunStarted, TrialEvent, Watcher
from rlrun.experiments.runs.labels import Labels, read_labels
from rlrun.experiments.runs.run_directory import RUN_FILE, Executor, RunDirectory
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.spec.loggers import TrialLogger
from rlrun.toys import ConstantReward
from tests.results import all_numbers

RUN_UNTIL_SIGNAL = Path(__file__).parents[3] / "integration" / "run_until_signal.py"

CONFIG = {
    "train_batch_size": 32,
    "min_env_steps_per_iteration": 0,
    "minibatch_size": 32,
    "num_epochs": 1,
    "num_envs_per_worker": 2,
    "model": {"hiddens": [4]},
}
ENTRY: dict[str, Any] = {
    "algorithm": "ppo",
    "env": "CartPole-v1",
    "stop": {"iteration": 6},
    "checkpoint": {"every": 2},
    "config": CONFIG,
}


def job(**changes: Any) -> dict[str, Any]:
    return {"job": {**ENTRY, **changes}}


def losing_power_at(iteration: int, experiment: str = "job") -> Watcher:
    """Returns a watcher that stops the process at an iteration of an experiment, as abruptly as a second Ctrl-C."""
    running = ""

    def watch(event: RunEvent) -> None:
        nonlocal running
        running = event.experiment if isinstance(event, RunStarted) else running
        result = event.result if isinstance(event, TrialEvent) else None
        if running == experiment and result is not None and result["iteration"] == iteration:
            raise KeyboardInterrupt

    return watch


def interrupted(spec: Mapping[str, Any], runs: Path, iteration: int, experiment: str = "job") -> None:
    with pytest.raises(Interrupted):
        rlrun.run(spec, runs_dir=runs, watch=losing_power_at(iteration, experiment))


def again(
    spec: Mapping[str, Any], runs: Path, watch: Watcher = lambda event: None, **options: Any
) -> tuple[list[TrialResult], list[str]]:
    """Repeats the same call; returns its trials, and its messages about existing runs."""
    said: list[str] = []

    def hear(event: RunEvent) -> None:
        said.extend([event.text] if isinstance(event, RunFound) else [])
        watch(event)

    return rlrun.run(spec, runs_dir=runs, resume=True, watch=hear, **options), said


def rows(trials: list[TrialResult]) -> list[list[dict[str, Any]]]:
    return [all_numbers(trial.results()) for trial in trials]


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """The rows of the undisturbed job."""
    return rows(rlrun.run(job(), runs_dir=tmp_path_factory.mktemp("whole")))


def test_repeating_a_call_continues_its_interrupted_run_and_does_nothing_once_the_run_is_complete(
    tmp_path: Path, whole: Any, wording
) -> None:
    with pytest.raises(Interrupted):
        rlrun.run(job(), runs_dir=tmp_path, resume=True, watch=losing_power_at(3))
    trials, said = again(job(), tmp_path)
    assert said == wording(tmp_path / "job")
    assert rows(trials) == whole
    before = content(tmp_path)
    trials, said = again(job(), tmp_path)
    assert said == wording(tmp_path / "job")
    assert [trial.status for trial in trials] == ["TERMINATED"]
    assert content(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["job"]
    found: list[RunEvent] = []
    rlrun.resume(tmp_path / "job", watch=found.append)
    assert isinstance(found[0], RunFound)
    assert found[0].text.startswith(said[0])
    assert "--extend" in found[0].text
    assert len(found) == 1


def test_a_killed_run_continues_to_the_rows_of_an_uninterrupted_one(tmp_path: Path, whole: Any) -> None:
    words = [json.dumps(job()), str(tmp_path), "local", "3", "SIGKILL", "self"]
    assert subprocess.run([sys.executable, RUN_UNTIL_SIGNAL, *words]).returncode == -signal.SIGKILL
    assert rows(again(job(), tmp_path)[0]) == whole


def test_an_interrupted_run_without_a_checkpoint_starts_over_and_says_so(tmp_path: Path, whole: Any, wording) -> None:
    spec = job(checkpoint={"every": 5})
    interrupted(spec, tmp_path, 2)
    shutil.rmtree(tmp_path / "job/000-seed=0/checkpoints")  # the interrupted run has written these
    trials, said = again(spec, tmp_path)
    assert said == wording(tmp_path / "job")
    assert rows(trials) == whole


def test_a_directory_left_when_creating_a_run_was_interrupted_becomes_that_run(
    tmp_path: Path, whole: Any, wording
) -> None:
    (experiment,) = parse_experiments(job(stop={"iteration": 9}))
    left = RunDirectory.create(tmp_path, "job", experiment, experiment.trials(), "local")
    (left.path / RUN_FILE).unlink()  # this file is written last
    (tmp_path / "job/slurm.out").write_text("kept")
    trials, said = again(job(), tmp_path)
    assert said == wording(tmp_path / "job")
    assert rows(trials) == whole
    assert trials[0].directory.parent == left.path
    assert (tmp_path / "job/slurm.out").read_text() == "kept"


class Closed(ConstantReward):
    """An env that does not start."""

    def reset(self, **options: Any) -> Any:
        raise RuntimeError("closed")


def test_a_directory_that_the_user_made_is_kept_if_a_run_in_it_fails_to_start(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job/notes.txt").write_text("mine")
    with pytest.raises(EnvStartFailed):
        again(job(env=f"{__name__}:Closed"), tmp_path)
    assert (tmp_path / "job/notes.txt").read_text() == "mine"


def test_an_interrupted_run_whose_run_json_is_missing_is_refused_rather_than_started_over(tmp_path: Path) -> None:
    interrupted(job(), tmp_path, 2)
    (tmp_path / "job" / RUN_FILE).unlink()
    before = content(tmp_path)
    with pytest.raises(RunDamaged, match=RUN_FILE):
        again(job(), tmp_path)
    assert content(tmp_path) == before


@pytest.mark.parametrize(
    ("changes", "options", "names"),
    [
        ({"config": {**CONFIG, "gamma": 0.5}}, {}, ["job.config.gamma", 0.5, "0.99 (default)"]),
        ({"stop": {"iteration": 5}}, {}, ["job.stop.iteration", 5, 6]),
        ({"stop": {"iteration": 6, "env_steps": 500}}, {}, ["job.stop.env_steps", 500]),
        ({"env": "Acrobot-v1"}, {}, ["job.env.id", "Acrobot-v1", "CartPole-v1"]),
        ({"evaluation": {"every": 3}}, {}, ["job.evaluation.every", 3]),
        ({}, {"seed": 1}, ["job.seeds", "[1]", "[0]"]),
        ({}, {"overrides": ["config.lr=0.5"]}, ["job.config.lr", 0.5]),
    ],
)
def test_changed_settings_that_affect_results_are_listed_and_nothing_is_run(
    tmp_path: Path, changes: dict[str, Any], options: dict[str, Any], names: list[Any], wording
) -> None:
    interrupted(job(), tmp_path, 2)
    before = content(tmp_path)
    with wording.raised(SpecError, tmp_path / "job", *names) as raised:
        again(job(**changes), tmp_path, **options)
    assert raised.value.exit_code == ExitCode.USAGE_OR_SPEC
    assert content(tmp_path) == before


def test_changed_settings_are_listed_with_their_lines_unless_the_call_overrides_them(tmp_path: Path, wording) -> None:
    file = tmp_path / "spec.yaml"
    text = """\
    job:
      algorithm: ppo
      env: {id: CartPole-v1}
      stages:
        one: {stop: {iteration: 1}}
        two: {stop: {iteration: 1}, config: {gamma: 0.9}}
    """
    file.write_text("\n".join(line[4:] for line in text.splitlines()))
    rlrun.run(file, runs_dir=tmp_path / "runs", overrides=["config.train_batch_size=64", "config.minibatch_size=32"])
    file.write_text(file.read_text().replace("0.9", "0.8").replace("CartPole-v1", "Acrobot-v1"))
    changed = ["config.train_batch_size=64", "config.minibatch_size=16"]
    with wording.raised(SpecError, f"{file}:6:49: job.two.config.gamma", f"{file}:3:13: job.one.env.id") as raised:
        rlrun.run(file, runs_dir=tmp_path / "runs", overrides=changed, resume=True)
    lines = {problem.path: problem.line for problem in raised.value.problems if problem.path}
    assert lines == {
        "job.one.env.id": 3,
        "job.one.config.minibatch_size": 0,
        "job.two.env.id": 3,
        "job.two.config.gamma": 6,
        "job.two.config.minibatch_size": 0,
    }


def test_continuing_a_run_with_a_different_start_checkpoint_is_refused(tmp_path: Path, wording) -> None:
    (other,) = rlrun.run({"other": {**ENTRY, "stop": {"iteration": 1}}}, runs_dir=tmp_path)
    assert other.checkpoint is not None
    with pytest.raises(Interrupted):
        rlrun.run(job(), runs_dir=tmp_path, from_checkpoint=other.checkpoint, watch=losing_power_at(2))
    with wording.raised(SpecError, other.checkpoint):
        again(job(), tmp_path)
    (trial,) = again(job(), tmp_path, from_checkpoint=other.checkpoint)[0]
    assert trial.status == "TERMINATED"


def test_changed_settings_that_do_not_affect_results_are_adopted(tmp_path: Path, whole: Any) -> None:
    interrupted(job(), tmp_path, 2)
    changed = job(
        checkpoint={"every": 1, "keep": 6},
        failure={"max_restarts": 2},
        expect={"episode_return_mean": 0},
        loggers={f"{__name__}:Counting": {}},
    )
    trials, _ = again(changed, tmp_path, tags=["second"], note="with other checkpoints", executor="local")
    assert rows(trials) == whole
    run = RunDirectory.open(tmp_path / "job")
    trial = run.trial("000-seed=0")
    assert (trial.checkpoint.every, trial.max_restarts, list(trial.loggers.custom)) == (1, 2, [f"{__name__}:Counting"])
    assert trial.expect == run.experiment().expect
    assert len(trials[0].checkpoints.skipped) == 0
    assert len(list((trials[0].directory / "checkpoints").iterdir())) >= 5
    assert read_labels(run.path) == Labels(("second",), "with other checkpoints")
    assert Counting.rows == [3, 4, 5, 6]


class Counting(TrialLogger):
    """A logger that keeps the iterations."""

    rows: list[int] = []  # noqa: RUF012

    def start(self, trial: Mapping[str, Any], directory: Path, known_as: str | None) -> str:
        return "here"

    def log(self, row: Mapping[str, Any]) -> None:
        self.rows.append(row["iteration"])

    def finish(self, status: str) -> None:
        pass


def test_a_larger_stop_criterion_extends_the_run(tmp_path: Path, whole: Any, wording) -> None:
    rlrun.run(job(stop={"iteration": 3}), runs_dir=tmp_path)
    trials, said = again(job(), tmp_path)
    assert said == wording(tmp_path / "job", "iteration 6")
    assert rows(trials) == whole
    assert "complete" in again(job(), tmp_path)[1][0]
    with pytest.raises(SpecError, match=r"job\.stop\.iteration"):
        again(job(stop={"iteration": 3}), tmp_path)


def test_a_schedule_that_ends_with_the_run_keeps_that_end_when_the_run_is_extended(tmp_path: Path) -> None:
    def falling(stop: int, lr: Any = (("end", 1e-4),)) -> dict[str, Any]:
        return job(stop={"env_steps": stop}, config={**CONFIG, "lr": [[0, 1e-3], *map(list, lr)]})

    rlrun.run(falling(64), runs_dir=tmp_path / "by_hand")
    by_hand = rlrun.resume(tmp_path / "by_hand/job", extend={"env_steps": 128})
    rlrun.run(falling(64), runs_dir=tmp_path)
    interrupted_trials, _ = again(falling(96), tmp_path)
    trials, _ = again(falling(128), tmp_path)
    assert [trial.last_result["env_steps"] >= 96 for trial in interrupted_trials] == [True]
    assert rows(trials) == rows(by_hand)
    assert "complete" in again(falling(128), tmp_path)[1][0]
    assert "complete" in again(falling(128), tmp_path / "by_hand")[1][0]
    for changed in (falling(128, [(100, 1e-4)]), falling(128, [("end", 1e-5)])):
        with pytest.raises(SpecError, match=r"job\.config\.lr: "):
            again(changed, tmp_path)


CHAIN = {
    "pole": {
        **{name: ENTRY[name] for name in ("algorithm", "env", "checkpoint", "config")},
        "stop": {"iteration": 3},
        "stages": {"first": {}, "second": {"config": CONFIG}},
    }
}


@pytest.fixture(scope="module")
def whole_chain(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """The rows of both stages, undisturbed."""
    return rows(rlrun.run(CHAIN, runs_dir=tmp_path_factory.mktemp("whole")))


@pytest.mark.parametrize("stage", ["first", "second"])
def test_a_chain_of_stages_continues_in_the_interrupted_stage(
    stage: str, tmp_path: Path, whole_chain: Any, wording
) -> None:
    interrupted(CHAIN, tmp_path, 2, f"pole.{stage}")
    trials, said = again(CHAIN, tmp_path)
    assert said == wording(tmp_path / "pole.first", tmp_path / "pole.second")
    assert rows(trials) == whole_chain
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pole.first", "pole.second"]


def test_a_chain_of_stages_continues_even_if_a_later_stage_has_no_directory_yet(
    tmp_path: Path, whole_chain: Any
) -> None:
    interrupted(CHAIN, tmp_path, 2, "pole.first")
    shutil.rmtree(tmp_path / "pole.second")
    assert rows(again(CHAIN, tmp_path)[0]) == whole_chain


def test_a_stage_is_not_extended_once_the_next_stage_has_begun(tmp_path: Path) -> None:
    rlrun.run(CHAIN, runs_dir=tmp_path)
    with pytest.raises(SpecError) as raised:
        again({"pole": {**CHAIN["pole"], "stop": {"iteration": 4}}}, tmp_path)
    assert [problem.path for problem in raised.value.problems] == ["pole.first.stop.iteration", ""]
    longer = {"first": {}, "second": {"config": CONFIG, "stop": {"iteration": 4}}}
    trials, _ = again({"pole": {**CHAIN["pole"], "stages": longer}}, tmp_path)
    assert [trial.last_result["iteration"] for trial in trials] == [3, 4]


def test_each_experiment_of_a_call_is_started_continued_or_skipped_independently_of_the_others(
    tmp_path: Path, whole: Any, wording
) -> None:
    spec = {"one": job()["job"], "two": job()["job"], "three": job()["job"]}
    rlrun.run({"one": spec["one"]}, runs_dir=tmp_path)
    interrupted({"three": spec["three"]}, tmp_path, 2, "three")
    trials, said = again(spec, tmp_path)
    assert said == wording(tmp_path / "one", tmp_path / "three")
    assert [trial.experiment for trial in trials] == ["one", "two", "three"]
    assert rows(trials) == whole * 3


def test_a_run_that_is_missing_on_disk_is_fetched_from_its_storage(tmp_path: Path, whole: Any, wording) -> None:
    spec = job(storage=str(tmp_path / "storage"))
    interrupted(spec, tmp_path / "lost", 3)
    with pytest.raises(Interrupted):  # the run completes its copy at the start, but not when power is lost
        again(spec, tmp_path / "lost", watch=losing_power_at(5))
    (tmp_path / "runs/job").mkdir(parents=True)
    trials, said = again(spec, tmp_path / "runs")
    assert said == wording(tmp_path / "runs/job", tmp_path / "storage/job")
    assert rows(trials) == whole
    assert [path.name for path in (tmp_path / "storage").iterdir()] == ["job"]
    elsewhere, said = again(spec, tmp_path / "elsewhere")
    assert said == wording(tmp_path / "elsewhere/job", tmp_path / "storage/job")
    assert rows(elsewhere) == whole


def test_a_call_without_resume_mentions_a_copy_of_the_run_that_exists_only_in_the_storage(
    tmp_path: Path, wording
) -> None:
    spec = job(storage=str(tmp_path / "storage"), stop={"iteration": 1})
    rlrun.run(spec, runs_dir=tmp_path / "lost")
    events: list[RunEvent] = []
    (second,) = rlrun.run(spec, runs_dir=tmp_path / "runs", watch=events.append)
    assert second.directory.parent.name == "job-2"
    assert isinstance(events[0], RunFound)
    assert events[0].text == wording(tmp_path / "storage/job", "--resume")


def test_a_run_whose_copy_was_never_complete_starts_over(tmp_path: Path, whole: Any) -> None:
    (tmp_path / "storage/job/000-seed=0").mkdir(parents=True)
    (tmp_path / "storage/job/000-seed=0/trial.json").write_text("{}")
    trials, said = again(job(storage=str(tmp_path / "storage")), tmp_path / "runs")
    assert (rows(trials), said) == (whole, [])
    assert (tmp_path / "storage/job" / RUN_FILE).read_bytes() == (tmp_path / "runs/job" / RUN_FILE).read_bytes()


def test_fetching_a_copy_over_an_existing_directory_is_refused_and_changes_nothing(tmp_path: Path, wording) -> None:
    spec = job(storage=str(tmp_path / "storage"))
    interrupted(spec, tmp_path / "lost", 3)
    (tmp_path / "runs/job").mkdir(parents=True)
    (tmp_path / "runs/job/notes.txt").write_text("mine")
    before = content(tmp_path / "storage")
    with wording.raised(UsageError, tmp_path / "runs/job", tmp_path / "storage/job"):
        again(spec, tmp_path / "runs")
    assert content(tmp_path / "storage") == before


def test_a_run_may_continue_with_another_storage_but_not_over_another_run(tmp_path: Path, whole: Any, wording) -> None:
    rlrun.run(job(storage=str(tmp_path / "taken")), runs_dir=tmp_path / "others")
    interrupted(job(storage=str(tmp_path / "before")), tmp_path / "runs", 2)
    with wording.raised(UsageError, tmp_path / "taken/job"):
        again(job(storage=str(tmp_path / "taken")), tmp_path / "runs")
    trials, _ = again(job(storage=str(tmp_path / "after")), tmp_path / "runs")
    assert rows(trials) == whole
    assert RunDirectory.open(tmp_path / "after/job").results()[0].status == "TERMINATED"
    again(job(), tmp_path / "runs")
    assert RunDirectory.open(tmp_path / "runs/job").table.copy is None


class Fragile(ConstantReward):
    """An env that raises an error until a file exists."""

    def __init__(self, sound: str) -> None:
        super().__init__()
        self._sound = Path(sound)

    def step(self, action: int) -> Any:
        if not self._sound.exists():
            raise RuntimeError("no ground")
        return super().step(action)


def fragile(sound: Path) -> dict[str, Any]:
    return {"id": f"{__name__}:Fragile", "kwargs": {"sound": str(sound)}}


def test_continuing_a_failed_run_fails_again_until_its_trials_are_retried(tmp_path: Path, wording) -> None:
    spec = job(env=fragile(tmp_path / "sound"))
    with pytest.raises(TrainingFailed) as first:
        rlrun.run(spec, runs_dir=tmp_path)
    before = content(tmp_path / "job")
    said: list[str] = []
    with pytest.raises(TrainingFailed) as second:
        again(spec, tmp_path, watch=lambda event: said.append(getattr(event, "text", "")))
    assert str(second.value) == str(first.value)
    assert said == wording(tmp_path / "job")
    assert content(tmp_path / "job") == before
    (tmp_path / "sound").touch()
    trials, _ = again(spec, tmp_path, retry_failed=True)
    assert [trial.status for trial in trials] == ["TERMINATED"]
    assert "complete" in again(spec, tmp_path)[1][0]


def test_continuing_a_failed_run_exits_with_the_exit_code_of_the_recorded_failure(tmp_path: Path) -> None:
    spec = job(env=fragile(tmp_path / "sound"))
    with pytest.raises(TrainingFailed):
        rlrun.run(spec, runs_dir=tmp_path)
    run = RunDirectory.open(tmp_path / "job")
    record = run.record("000-seed=0")
    assert record.exit_code == ExitCode.TRAINING_FAILED
    run.trial_directory("000-seed=0").write_record(replace(record, exit_code=int(ExitCode.DISK_OR_MEMORY)))
    with pytest.raises(OutOfResources):
        again(spec, tmp_path)


def test_failed_trials_are_not_rerun_when_all_others_are_complete(tmp_path: Path, wording) -> None:
    grounds = {"grid_search": [str(tmp_path), str(tmp_path / "sound")]}
    spec = job(env={"id": f"{__name__}:Fragile", "kwargs": {"sound": grounds}}, stop={"iteration": 1})
    rlrun.run(spec, runs_dir=tmp_path, executor="local")
    trials, said = again(spec, tmp_path, executor="local")
    assert [trial.status for trial in trials] == ["TERMINATED", "ERROR"]
    assert said == wording(tmp_path / "job")


def test_continuing_a_run_held_by_another_process_is_refused_with_the_id_of_that_process(
    tmp_path: Path, wording
) -> None:
    interrupted(job(), tmp_path, 2)
    with RunDirectory.open(tmp_path / "job").locked():
        before = content(tmp_path)
        with wording.raised(UsageError, tmp_path / "job", os.getpid(), pid=os.getpid()):
            again(job(stop={"iteration": 7}), tmp_path, tags=["late"])
        assert content(tmp_path) == before


def test_retrying_failed_trials_requires_resuming_their_run(tmp_path: Path, wording) -> None:
    with wording.raised(UsageError):
        rlrun.run(job(), runs_dir=tmp_path, retry_failed=True)


def test_without_the_resume_flag_the_first_event_says_that_an_interrupted_run_exists(
    tmp_path: Path, whole: Any, wording
) -> None:
    interrupted(job(), tmp_path, 2)
    events: list[RunEvent] = []
    (second,) = rlrun.run(job(), runs_dir=tmp_path, watch=events.append)
    assert second.directory.parent.name == "job-2"
    assert isinstance(events[0], RunFound)
    assert events[0].text == wording(tmp_path / "job", f"{second.results()[1]['env_steps']} env steps", "--resume")
    again(job(), tmp_path)
    (tmp_path / "job/000-seed=0/trial.json").write_text("damaged")
    events.clear()
    rlrun.run(job(), runs_dir=tmp_path / "none", watch=events.append)
    assert isinstance(events[0], RunStarted)


def test_a_driver_restarted_without_its_cluster_names_the_command_that_continues_its_run(
    tmp_path: Path, wording
) -> None:
    interrupted(job(), tmp_path, 3)
    with wording.raised(UsageError, "127.0.0.1:1", tmp_path / "job"):
        continue_runs(
            [tmp_path / "job"],
            executor=None,
            address="127.0.0.1:1",
            wait_for_nodes_s=None,
            retry_failed=False,
            watch=lambda event: None,
        )


def test_a_restarted_driver_continues_all_runs_of_its_command_in_order(tmp_path: Path, whole: Any) -> None:
    rlrun.run({"complete": ENTRY}, runs_dir=tmp_path)
    interrupted(job(), tmp_path, 3)
    trials = continue_runs(
        [tmp_path / "complete", tmp_path / "job"],
        executor=None,
        address=None,
        wait_for_nodes_s=None,
        retry_failed=False,
        watch=lambda event: None,
    )
    assert [trial.directory.parent.name for trial in trials] == ["complete", "job"]
    assert rows(trials) == [*whole, *whole]


@pytest.mark.parametrize("executor", ["local", "ray"])
def test_a_resume_keeps_the_executor_with_which_the_run_was_started(tmp_path: Path, executor: Executor) -> None:
    (experiment,) = parse_experiments(job(seeds=[0, 1]))
    directory = RunDirectory.create(tmp_path, "job", experiment, experiment.trials(), executor)
    part = remaining_part(directory, None, None, retry_failed=False, eager=False)
    assert part is not None
    assert part.executor == executor
