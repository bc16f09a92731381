"""What a run reports about its trials while they run."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import rlrun
from rlrun.engine.envs.env_watch import interrupt_requested
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.step_marks import StepMarks, enable_step_marks, end_marks
from rlrun.engine.messages.errors import TrainingFailed
from rlrun.experiments.runs import active_run
from rlrun.experiments.runs.active_run import ActiveRun, Interrupts
from rlrun.experiments.runs.driver_log import DriverLog
from rlrun.experiments.runs.events import RunEvent, RunFinished, RunStarted, RunStopping, TrialEvent, TrialNote, Watcher
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial import results
from rlrun.experiments.trial.event_file import FILE_PATTERN

SPEC = {
    "algorithm": "ppo",
    "env": "CartPole-v1",
    "stop": {"iteration": 6},
    "config": {
        "train_batch_size": 32,
        "min_env_steps_per_iteration": 0,
        "minibatch_size": 32,
        "num_epochs": 1,
        "num_envs_per_worker": 1,
    },
}


def notes_of_size(tmp_path: Path, large: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(active_run, "LARGE_BYTES", large)
    monkeypatch.setattr(active_run, "LOOK_EVERY_ITERATIONS", 2)
    events: list[RunEvent] = []
    rlrun.run({"pole": SPEC}, runs_dir=tmp_path, watch=events.append)
    return [event.text for event in events if isinstance(event, TrialNote) and "result files" in event.text]


def test_a_run_reports_only_once_that_result_files_have_become_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    (said,) = notes_of_size(tmp_path, 1, monkeypatch)
    assert said == wording()
    assert "config.min_env_steps_per_iteration" in said


def test_the_last_event_of_a_trial_states_the_stop_criterion_that_the_trial_met(tmp_path: Path, wording) -> None:
    events: list[RunEvent] = []
    rlrun.run({"pole": SPEC}, runs_dir=tmp_path, watch=events.append)
    *_, last = (event for event in events if isinstance(event, TrialEvent))
    assert (last.status, last.stopped_by, last.stop_reason) == ("TERMINATED", "", wording("iteration", ">= 6"))


def test_the_size_of_result_files_includes_all_files_that_grow_with_each_iteration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "SECONDS_BETWEEN_ROWS", 0.0)  # every result adds a row to all files
    assert notes_of_size(tmp_path, 1_000_000, monkeypatch) == []
    (trial,) = (tmp_path / "pole").glob("000*")
    (events,) = trial.glob(FILE_PATTERN)
    size = sum(file.stat().st_size for file in (trial / "result.json", trial / "progress.csv", events))
    (said,) = notes_of_size(tmp_path, round(0.8 * size), monkeypatch)  # no single file reaches this size
    assert "after 6 iterations" in said


def test_a_signal_during_a_watcher_call_is_reported_once_directly_after_that_call(tmp_path: Path) -> None:
    told: list[str] = []

    def watch(event: RunEvent) -> None:
        told.append(type(event).__name__)
        if isinstance(event, TrialNote) and event.text == "first":
            os.kill(os.getpid(), signal.SIGTERM)  # arrives inside the watcher, so it is reported afterwards
            told.append("note ends")

    run = run_watched(tmp_path, watch)
    with run.interrupts:
        run.stopping()  # a run that has not begun reports nothing
        run.tell(RunStarted("pole", tmp_path, "local", False, (), False, sys.stdout))
        run.note("000", "first")
        run.note("000", "second")
        run.stopping()
        run.tell(RunFinished(tmp_path, (), 1.0))
    assert told == ["RunStarted", "TrialNote", "note ends", "RunStopping", "TrialNote", "RunFinished"]


def test_a_signal_is_reported_immediately_during_an_iteration(tmp_path: Path) -> None:
    told: list[RunEvent] = []
    run = run_watched(tmp_path, told.append)
    with run.interrupts:
        run.tell(RunStarted("pole", tmp_path, "local", False, (), False, sys.stdout))
        os.kill(os.getpid(), signal.SIGTERM)
        assert told[1:] == [RunStopping("SIGTERM")]


def run_watched(tmp_path: Path, watch: Watcher, **settings: Any) -> ActiveRun:
    (experiment,) = parse_experiments({"pole": {**SPEC, **settings}})
    directory = RunDirectory.create(tmp_path, "pole", experiment, experiment.trials(), "local")
    run: list[ActiveRun] = []
    interrupts = Interrupts(heard=lambda: run[0].stopping())
    run.append(ActiveRun(directory, experiment, [], False, False, interrupts, DriverLog(), watch))
    return run[0]


def test_a_metric_named_in_the_spec_but_missing_from_results_is_noted_once(tmp_path: Path, wording) -> None:
    told: list[RunEvent] = []
    run = run_watched(tmp_path, told.append, stop={"env_steps": 10, "info/energy": 3})
    for iteration in (1, 2):
        run.iterated("000-seed=0", {"iteration": iteration, "episode_return_mean": 1.0, "info/energy_kwh": 2.0})
    (note,) = [event for event in told if isinstance(event, TrialNote)]
    assert (note.trial, note.text) == ("000-seed=0", wording("stop", "info/energy", "info/energy_kwh"))


def test_a_trial_whose_process_died_in_an_env_is_reported_with_the_current_episode(tmp_path: Path, wording) -> None:
    (experiment,) = parse_experiments({"pole": SPEC})
    (trial,) = experiment.trials()
    directory = RunDirectory.create(tmp_path, "pole", experiment, [trial], "ray")
    enable_step_marks(directory.path / trial.name)  # as the process did before it died
    StepMarks("lab:Crashes", EpisodeSeeds(run_seed=0, worker_index=0), 2).begin(1, 4, 44)
    try:
        run = ActiveRun(
            directory,
            experiment,
            [trial],
            resumed=False,
            eager=False,
            interrupts=Interrupts(),
            log=DriverLog(),
            watch=lambda event: None,
        )
        run.failed(trial.name, TrainingFailed("its process died"))
    finally:
        end_marks()
    first, second = directory.record(trial.name).error.splitlines()
    assert first == "its process died"
    assert second == wording("lab:Crashes", "num_workers: 1", "44")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_and_raises_nothing(number: signal.Signals) -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), number)
        assert interrupt_requested.is_set()

    assert interrupts.received == number.name
    assert not interrupt_requested.is_set()


def test_the_second_signal_ends_the_run_at_once() -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)

    assert interrupts.received == "SIGTERM"


def test_signal_handlers_are_restored_even_if_a_library_replaced_them_meanwhile() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with Interrupts() as interrupts:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        interrupts.listen()
        os.kill(os.getpid(), signal.SIGTERM)

    assert interrupts.received == "SIGTERM"
    assert {number: signal.getsignal(number) for number in before} == before


def test_signal_handlers_are_not_installed_outside_the_main_thread() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def listen() -> None:
        with Interrupts() as interrupts:
            seen.append((signal.getsignal(signal.SIGINT), interrupts.received))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()

    assert seen == [(before, "")]
