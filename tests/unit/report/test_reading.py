"""Runs in every state can be read, and unreadable parts are reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.trial.trial_directory import TrialDirectory, TrialRecord
from rlrun.report.configurations import groups_of
from rlrun.report.page import page_data
from rlrun.report.reading import (
    axis_of,
    chosen_goal,
    counterpart,
    missing_returns,
    read_run,
    read_runs,
    require_reported,
)
from rlrun.report.summary import summarise

MakeRun = Callable[..., Path]


def test_a_run_is_read_with_its_trials_in_order_and_the_requested_columns(make_sweep: MakeRun) -> None:
    run = read_run(make_sweep({0.1: [[1, 2], [3, None, 5]], 0.2: [[7]]}))
    assert [trial.name for trial in run.trials] == ["000-lr=0.1-seed=0", "001-lr=0.1-seed=1", "002-lr=0.2-seed=0"]
    assert [trial.configuration for trial in run.trials] == [0, 0, 1]
    assert run.trials[1].seed == 1
    np.testing.assert_array_equal(run.trials[1].columns.values["episode_return_mean"], [3, np.nan, 5])
    xs, ys = run.trials[1].points("episode_return_mean", "env_steps")
    assert (xs.tolist(), ys.tolist()) == ([100, 300], [3, 5])
    assert run.trials[1].final("episode_return_mean") == 5
    assert run.trials[1].best("episode_return_mean", "min") == 3
    assert run.problems == ()
    assert run.reported == ("iteration", "env_steps", "time_total_s", "episode_return_mean")


def test_a_trial_without_rows_has_no_values(make_sweep: MakeRun) -> None:
    (trial,) = read_run(make_sweep({0.1: [[]]})).trials
    assert trial.last_result == {}
    assert trial.final("episode_return_mean") is None
    assert trial.best("episode_return_mean") is None
    assert len(trial.points("episode_return_mean", "env_steps")[0]) == 0


def test_a_torn_last_row_is_left_out_when_a_run_is_read(make_sweep: MakeRun) -> None:
    path = make_sweep({0.1: [[1, 2]]})
    with (path / "000-lr=0.1-seed=0" / "result.json").open("a") as file:
        file.write('{"iteration": 3, "env_st')
    assert read_run(path).trials[0].final("episode_return_mean") == 2


def test_damaged_rows_are_reported_by_file_and_line_and_the_intact_rows_are_read(make_sweep: MakeRun, wording) -> None:
    file = make_sweep({0.1: [[1, 2, 3, 4, 5, 6]]}) / "000-lr=0.1-seed=0" / "result.json"
    rows = file.read_text().splitlines()
    file.write_text("\n".join([rows[0], "damaged", *rows[2:3], "[4]", "", *rows[5:], "\0\0", ""]))
    run = read_run(file.parents[1])
    assert run.problems == wording(file)
    assert run.trials[0].columns.values["episode_return_mean"].tolist() == [1, 3, 6]


def test_a_damaged_trial_is_reported_and_the_other_trials_are_read(make_sweep: MakeRun, wording) -> None:
    path = make_sweep({0.1: [[1], [2]], 0.2: [[3]]})
    (path / "001-lr=0.1-seed=1" / "trial.json").write_text('{"name": ')
    (path / "002-lr=0.2-seed=0" / "trial.json").unlink()
    run = read_run(path)
    assert [trial.status for trial in run.trials] == ["TERMINATED", "DAMAGED", "DAMAGED"]
    assert run.trials[1].configuration == 0
    assert len(run.problems) == 2
    assert run.problems[0] == wording("/trial.json", "001", "0.1")
    assert run.problems[1] == wording("trial.json", "002", "0.2")


def test_a_trial_whose_folder_is_missing_is_reported(make_sweep: MakeRun, wording) -> None:
    path = make_sweep({0.1: [[1]]})
    for file in (path / "000-lr=0.1-seed=0").iterdir():
        file.unlink()
    (path / "000-lr=0.1-seed=0").rmdir()
    run = read_run(path)
    assert [trial.status for trial in run.trials] == ["DAMAGED"]
    assert [problem.rpartition("/")[2] for problem in run.problems] == wording("trial.json", "000", "0.1")


def test_a_damaged_spec_is_reported(make_sweep: MakeRun, wording) -> None:
    path = make_sweep({0.1: [[1]]})
    (path / "spec.yaml").write_text("pole: [")
    run = read_run(path)
    assert run.spec == {}
    assert len(run.problems) == 1
    assert run.problems[0] == wording("spec.yaml")


def test_a_trial_recorded_as_running_that_no_process_claims_is_read_as_killed(make_sweep: MakeRun) -> None:
    path = make_sweep({0.1: [[1]], 0.2: [[1]], 0.3: [[1]]})
    directories = [TrialDirectory(trial) for trial in sorted(path.glob("*-seed=0"))]
    for directory in directories[:2]:
        directory.write_record(TrialRecord(directory.path.name, "RUNNING", seed=0))
    directories[1].claim()
    try:
        assert [trial.status for trial in read_run(path).trials] == ["KILLED", "RUNNING", "TERMINATED"]
    finally:
        directories[1].release()


def test_each_run_is_read_once_and_runs_with_equal_names_are_distinguished_by_their_folders(
    make_sweep: MakeRun, tmp_path: Path
) -> None:
    first = make_sweep({0.1: [[1]]}, name="here/pole")
    second = make_sweep({0.1: [[1]]}, name="there/pole")
    assert [run.name for run in read_runs([first, second, first])] == ["here/pole", "there/pole"]
    assert [run.name for run in read_runs([first, first])] == ["pole"]


@pytest.mark.parametrize(
    ("spec", "goal"),
    [
        ({}, ("episode_return_mean", "max")),
        ({"checkpoint": {"best": "info/score"}}, ("info/score", "max")),
        ({"scheduler": {"asha": {"metric": "info/cost", "mode": "min"}}}, ("info/cost", "min")),
        ({"scheduler": "median", "searcher": {"optuna": {"metric": "a", "mode": "max"}}}, ("a", "max")),
        ({"checkpoint": {"best": None}, "scheduler": None}, ("episode_return_mean", "max")),
        ({"checkpoint": {"best": None}, "evaluation": {"every": 5}}, ("evaluation/episode_return_mean", "max")),
        ({"checkpoint": {"best": "episode_return_mean"}, "evaluation": {}}, ("episode_return_mean", "max")),
        (
            {
                "checkpoint": {"best": "evaluation/episode_return_mean"},
                "scheduler": {"asha": {"metric": "episode_return_mean", "mode": "max"}},
            },
            ("evaluation/episode_return_mean", "max"),
        ),
    ],
)
def test_the_goal_of_a_run_is_the_metric_of_its_scheduler_searcher_or_best_checkpoint(
    make_sweep: MakeRun, spec: dict[str, object], goal: tuple[str, str]
) -> None:
    path = make_sweep({0.1: [[1]]}, spec=spec)
    for file in path.glob("*/result.json"):
        file.write_text(json.dumps({**json.loads(file.read_text()), goal[0]: 2.0}) + "\n")
    run = read_run(path)
    assert run.goal == goal
    assert chosen_goal([run], None, None) == goal
    assert chosen_goal([run], "env_steps", None) == ("env_steps", "max")
    assert chosen_goal([run], None, "min") == (goal[0], "min")
    assert goal[0] in run.trials[0].columns.values


def test_the_error_for_a_metric_that_no_run_reports_suggests_the_closest_name(make_sweep: MakeRun, wording) -> None:
    one, two = read_run(make_sweep({0.1: [[1]]}, name="a")), read_run(make_sweep({0.1: [[1]]}, name="b"))
    with wording.raised(UsageError, "env_steps"):
        require_reported([one], ["env_step"])
    with wording.raised(UsageError, "env_steps"):
        require_reported([one, two], ["env_step"])
    require_reported([read_run(make_sweep({0.1: [[]]}, name="c"))], ["whatever"])


def test_stop_decisions_of_a_scheduler_are_read(make_sweep: MakeRun) -> None:
    path = make_sweep({0.1: [[1]]})
    lines = [{"trial": "000-lr=0.1-seed=0", "time": 100.0, "score": None, "reason": "asha: last"}]
    (path / "decisions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"tri')
    (stop,) = read_run(path).stops
    assert (stop.trial, stop.time, stop.score, stop.reason) == ("000-lr=0.1-seed=0", 100.0, None, "asha: last")


def test_several_runs_are_judged_by_a_goal_that_all_of_them_report(make_sweep: MakeRun) -> None:
    best = {"checkpoint": {"best": "evaluation/episode_return_mean"}}
    run = make_sweep({0.1: [[1]]}, name="evaluates", spec=best)
    for path in run.glob("*/result.json"):
        row = {**json.loads(path.read_text()), "evaluation/episode_return_mean": 2.0}
        path.write_text(json.dumps(row) + "\n")
    evaluates = read_run(run)
    trains = read_run(make_sweep({0.1: [[1]]}, name="trains"))
    assert chosen_goal([evaluates], None, None) == ("evaluation/episode_return_mean", "max")
    assert chosen_goal([evaluates, trains], None, None) == ("episode_return_mean", "max")
    misspelled = {"checkpoint": {"best": "info/sucess"}}
    assert chosen_goal([read_run(make_sweep({0.1: [[1]]}, spec=misspelled))], None, None) == (
        "episode_return_mean",
        "max",
    )


@pytest.mark.parametrize(
    ("metric", "other"),
    [
        ("episode_return_mean", "evaluation/episode_return_mean"),
        ("evaluation/episode_return_mean", "episode_return_mean"),
        ("policies/left/episode_return_mean", "evaluation/policies/left/episode_return_mean"),
        ("info/score", None),
        ("evaluation/against/win_rate", None),
    ],
)
def test_the_counterpart_of_a_training_metric_is_its_evaluation_metric(metric: str, other: str | None) -> None:
    assert counterpart(metric) == other


def test_runs_that_learn_from_data_are_shown_over_sgd_steps_even_next_to_runs_with_env_steps(
    make_sweep: MakeRun, wording
) -> None:
    of_env, of_data = make_sweep({0.1: [[1, 2]]}, "env"), make_sweep({0.1: [[1, 2], [3, 4]]}, "data")
    for file in of_data.rglob("result.json"):
        file.write_text(file.read_text().replace('"env_steps": ', '"env_steps": 0, "sgd_steps": '))
    runs = read_runs([of_env, of_data])
    assert [axis_of([run], None) for run in runs] == ["env_steps", "sgd_steps"]
    assert axis_of(runs, None) == "sgd_steps"
    assert axis_of(runs, "time") == "time_total_s"
    (summary,) = summarise(groups_of(runs[1]), "episode_return_mean", "max")
    assert (summary.env_steps, summary.sgd_steps, summary.mean and summary.mean.value) == (0, 200, 3)
    page = page_data([runs[1]], "episode_return_mean", "max", [])
    curve = page["groups"][0]["curves"]["episode_return_mean"]["steps"]
    assert (page["steps"], curve["from"], curve["to"]) == ("SGD steps", 100, 200)
    assert ([trial["steps"] for trial in page["trials"]], page["configurations"][0]["steps"]) == ([200, 200], 200)
    assert missing_returns([runs[0]], "episode_return_mean") == ""
    assert missing_returns([runs[1]], "episode_return_mean") == wording()
