"""What the scheduler does with trials that fail, or that waited when a run was interrupted; called as by Tune."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler

from rlrun.experiments.runs.active_run import ActiveRun, Interrupts
from rlrun.experiments.runs.driver_log import DriverLog
from rlrun.experiments.runs.events import RunEvent, TrialEvent, TrialNote
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.search.rules_of_run import rule_of
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial.results import RESULT_FILE
from rlrun.experiments.tune.trainable import ROW
from rlrun.experiments.tune.trial_scheduler import Departures, RuleScheduler
from tests.files import files_of_at_most

HYPERBAND = {"metric": "learner/lr", "time_attr": "iteration", "grace_period": 4, "max_t": 16, "reduction_factor": 2}
LR = [1e-4, 2e-4, 3e-4, 4e-4, 5e-4, 6e-4]
CONTINUE, WAITS, STOP = TrialScheduler.CONTINUE, TrialScheduler.NOOP, TrialScheduler.STOP


class Actor:
    """Records the driver's calls."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.finish = SimpleNamespace(remote=lambda reason: self.called.append("finish"))
        self.interrupt = SimpleNamespace(remote=lambda: self.called.append("interrupt"))
        self.pause = SimpleNamespace(remote=lambda: self.called.append("pause"))


class OnTune:
    """A run's scheduler, with the parts of Tune's controller and trials that it reads.

    HyperBand's first bracket has three trials without a rung; the second has three that wait for each other at 8 of 16.
    """

    def __init__(self, runs: Path, reached: dict[int, int] | None = None, failed: int | None = None) -> None:
        entry = {
            "algorithm": "ppo",
            "env": "CartPole-v1",
            "stop": {"iteration": 16},
            "scheduler": {"hyperband": HYPERBAND},
            "config": {"lr": {"grid_search": LR}},
        }
        (experiment,) = parse_experiments({"swept": entry})
        directory = RunDirectory.create(runs, "swept", experiment, experiment.trials(), "ray")
        trials = {trial.index: trial for trial in experiment.trials()}
        for number, iterations in (reached or {}).items():
            rows = [{"iteration": row, "learner/lr": LR[number]} for row in range(1, iterations + 1)]
            file = directory.path / trials[number].name / RESULT_FILE
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
            directory.mark(trials[number].name, "ERROR" if number == failed else "INTERRUPTED")
        self.told: list[RunEvent] = []
        self.run = ActiveRun(
            directory,
            experiment,
            list(trials.values()),
            resumed=reached is not None,
            eager=False,
            interrupts=Interrupts(),
            log=DriverLog(),
            watch=self.told.append,
        )
        rule, self.standings = rule_of(self.run)
        self.draining: set[str] = set()
        departures = Departures(lambda: self.draining, lambda _, trial: {trial.config["trial"]["name"][:3]})
        self.scheduler = RuleScheduler(self.run, rule, None, departures)
        self.trials = [
            SimpleNamespace(
                config={"trial": trial.to_data()},
                status=Trial.RUNNING,
                temporary_state=SimpleNamespace(ray_actor=Actor()),
            )
            for trial in trials.values()
        ]
        for trial in self.trials:
            self.scheduler.on_trial_add(self, trial)
        self.going_on: list[str] = []
        self._tune_controller = self

    def get_live_trials(self) -> list[Any]:
        return self.trials

    def stop_trial(self, trial: Any) -> None:
        trial.status = Trial.TERMINATED

    def _schedule_trial_train(self, trial: Any) -> None:
        self.going_on.append(trial.config["trial"]["name"][:3])

    def hears(self, number: int, iteration: int) -> str:
        result = {ROW: json.dumps({"iteration": iteration, "learner/lr": LR[number]}), "done": False}
        return str(self.scheduler.on_trial_result(self, self.trials[number], result))

    def turn(self) -> None:
        assert self.scheduler.choose_trial_to_run(self) is None


def test_a_bracket_waits_for_a_restarted_trial_but_not_for_a_failed_trial(tmp_path: Path) -> None:
    tune = OnTune(tmp_path)
    assert [tune.hears(number, 8) for number in (3, 4)] == [WAITS, WAITS]
    tune.trials[5].status = Trial.ERROR  # Tune leaves a trial like this before it starts it again
    tune.scheduler.on_trial_error(tune, tune.trials[5])
    tune.turn()
    assert tune.going_on == []
    tune.trials[5].status = Trial.RUNNING
    tune.scheduler.on_trial_error(tune, tune.trials[5])
    tune.turn()
    assert tune.going_on == ["003", "004"]


def test_after_a_resume_each_trial_gets_a_pending_decision_when_it_next_reports(tmp_path: Path) -> None:
    tune = OnTune(tmp_path, reached={3: 8, 4: 8, 5: 7})
    assert tune.hears(5, 8) == CONTINUE
    tune.turn()
    assert tune.going_on == []
    assert [tune.hears(number, 9) for number in (3, 4)] == [STOP, CONTINUE]


def test_the_scheduler_waits_for_a_failed_trial_that_is_retried(tmp_path: Path) -> None:
    tune = OnTune(tmp_path, reached={3: 8, 4: 8, 5: 2}, failed=5)
    assert [tune.hears(number, 9) for number in (3, 4)] == [WAITS, WAITS]
    assert tune.hears(5, 8) == CONTINUE
    tune.turn()
    assert tune.going_on == ["004"]
    assert [name[:3] for name in tune.run.stopped] == ["003"]


def test_values_seen_at_rungs_are_restored_after_a_resume(tmp_path: Path) -> None:
    tune = OnTune(tmp_path, reached={0: 16, 3: 8, 4: 9, 5: 7})
    assert [(name[:3], rung, value) for name, rung, value in tune.standings] == [
        ("003", 8, LR[3]),
        ("004", 8, LR[4]),
        ("000", 16, LR[0]),
    ]


def test_a_trial_whose_node_is_about_to_leave_is_saved_after_its_iteration_and_the_others_continue(
    tmp_path: Path,
) -> None:
    tune = OnTune(tmp_path)
    tune.draining = {"001"}
    tune.turn()
    assert [tune.hears(number, 1) for number in (0, 1, 2)] == [CONTINUE, WAITS, CONTINUE]
    assert [trial.temporary_state.ray_actor.called for trial in tune.trials[:3]] == [[], ["pause"], []]
    assert [event.trial[:3] for event in tune.told if isinstance(event, TrialNote)] == ["001"]


def test_a_waiting_trial_whose_node_is_about_to_leave_is_saved_at_once(tmp_path: Path) -> None:
    tune = OnTune(tmp_path)
    assert tune.hears(3, 8) == WAITS
    tune.draining = {"003"}
    tune.turn()
    assert tune.trials[3].temporary_state.ray_actor.called == ["pause"]


@pytest.mark.parametrize("who_is_last", [3, 5])
def test_a_full_disk_stops_all_trials_before_any_is_lost(tmp_path: Path, who_is_last: int) -> None:
    tune = OnTune(tmp_path)
    for number in {3, 4, 5} - {who_is_last}:
        tune.hears(number, 8)
    with files_of_at_most(10):
        tune.hears(who_is_last, 8)
        tune.turn()
    assert tune.run.stopped == {}
    assert "decisions.jsonl" in str(tune.run.fault)
    tune.turn()
    assert [trial.temporary_state.ray_actor.called for trial in tune.trials] == [["interrupt"]] * 6
    assert sorted(tune.going_on) == ["003", "004", *(["005"] if who_is_last != 5 else [])]


def test_a_trial_about_to_be_restarted_is_recorded_as_interrupted_and_not_as_failed(tmp_path: Path) -> None:
    tune = OnTune(tmp_path)
    name = tune.run.trials[0].name
    tune.run.directory.mark(name, "ERROR", "boom")
    tune.run.restarts(name, 1, 3, RuntimeError("boom"))
    assert tune.run.directory.record(name).status == "INTERRUPTED"


def test_a_trial_stopped_before_a_kill_does_not_resume_and_its_end_is_reported(tmp_path: Path) -> None:
    tune = OnTune(tmp_path, reached={3: 8, 4: 8, 5: 8})
    assert [trial.name[:3] for trial in tune.run.trials] == ["000", "001", "002", "004", "005"]
    ends = [event for event in tune.told if isinstance(event, TrialEvent)]
    assert [(event.trial[:3], event.status) for event in ends] == [("003", "TERMINATED")]
