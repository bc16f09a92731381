"""A trial is read once: cheap parts immediately, its checkpoints and all of its rows on request."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlrun.engine.checkpoint.format import Content
from rlrun.engine.checkpoint.store import CheckpointStore
from rlrun.engine.messages.errors import RunDamaged
from rlrun.experiments.runs.trial_result import TrialResult, read_trial
from rlrun.experiments.trial.results import ResultWriter
from rlrun.experiments.trial.trial_directory import TrialDirectory, TrialRecord


@pytest.fixture
def trial(tmp_path: Path) -> TrialResult:
    """Returns a trial of three iterations, each with a checkpoint; the second has the best return."""
    directory = TrialDirectory(tmp_path / "000")
    directory.write_record(TrialRecord("000", "TERMINATED", seed=4, params={"lr": 0.1}, iteration=3, best_return=9.0))
    directory.write_spec({"checkpoint": {"best": "episode_return_mean"}, "configuration": 2})
    writer, store = ResultWriter(directory.path), CheckpointStore(directory.checkpoints)
    for iteration, mean in enumerate([1.0, 9.0, 5.0], start=1):
        row = {"iteration": iteration, "env_steps": 100 * iteration, "episode_return_mean": mean}
        writer.write(row)
        store.commit(store.stage(iteration, Content({"algorithm": "ppo"}, {"algorithm": "ppo"}), row))
    writer.close()
    return read_trial(directory.path, "pole", has_driver=False)


def test_cheap_attributes_of_a_trial_are_read_immediately(trial: TrialResult) -> None:
    assert (trial.name, trial.experiment, trial.status, trial.seed) == ("000", "pole", "TERMINATED", 4)
    assert (trial.params, trial.configuration, trial.population) == ({"lr": 0.1}, 2, None)
    assert (trial.env_steps, trial.best_return, trial.last_result["iteration"]) == (300, 9.0, 3)


@pytest.mark.parametrize(
    ("reason", "shown"), [("env_steps 128 >= 100", "terminated"), ("asha: 3 at 100 env steps is worse", "stopped")]
)
def test_a_trial_that_was_ended_by_a_scheduler_is_shown_as_stopped(trial: TrialResult, reason: str, shown: str) -> None:
    assert replace(trial, stop_reason=reason).shown_status == shown


def test_checkpoints_are_scanned_on_first_access_and_then_cached(trial: TrialResult) -> None:
    (trial.directory / "checkpoints/iteration_000003/manifest.json").write_text("{")
    assert trial.checkpoint == trial.directory / "checkpoints/iteration_000002"
    assert trial.best_checkpoint == trial.checkpoint
    assert [skipped.path.name for skipped in trial.checkpoints.skipped] == ["iteration_000003"]
    store = CheckpointStore(trial.directory / "checkpoints")
    store.commit(store.stage(4, Content({"algorithm": "ppo"}, {"algorithm": "ppo"}), {"episode_return_mean": 10.0}))
    assert trial.checkpoint == trial.best_checkpoint == trial.directory / "checkpoints/iteration_000002"
    assert replace(trial).checkpoint == trial.directory / "checkpoints/iteration_000004"


def test_requesting_the_best_checkpoint_of_a_trial_without_a_spec_raises_an_error(trial: TrialResult, wording) -> None:
    (trial.directory / "spec.yaml").unlink()
    with wording.raised(RunDamaged, "/spec.yaml", "000"):
        _ = trial.best_checkpoint


def test_only_the_requested_metrics_are_read_from_the_rows(trial: TrialResult) -> None:
    read = replace(trial, metrics=("episode_return_mean", "info/score"))
    np.testing.assert_array_equal(read.columns.values["episode_return_mean"], [1, 9, 5])
    np.testing.assert_array_equal(read.columns.values["info/score"], [np.nan] * 3)
    assert read.columns.reported == ("iteration", "env_steps", "episode_return_mean")
    assert (read.final("episode_return_mean"), read.best("episode_return_mean", "min")) == (5, 1)
    assert read.best("info/score") is None


def test_unreadable_rows_are_reported_as_a_problem_and_raise_no_exception(trial: TrialResult, wording) -> None:
    (trial.directory / "result.json").unlink()
    (trial.directory / "result.json").mkdir()
    read = replace(trial, metrics=("episode_return_mean",))
    assert read.columns.problem == wording("000")
    assert read.best("episode_return_mean") is None


def change_rows(trial: TrialResult, old: str, new: str) -> TrialResult:
    """Changes a text in the rows of a trial, and reads it again."""
    file = trial.directory / "result.json"
    file.write_text(file.read_text().replace(old, new))
    return replace(read_trial(trial.directory, "pole", has_driver=False), metrics=("episode_return_mean",))


def test_a_row_that_differs_from_its_checkpoint_is_reported_and_read_from_the_checkpoint(
    trial: TrialResult, wording
) -> None:
    changed = change_rows(trial, "5.0}", "99.0}")
    assert changed.problems == wording(trial.directory / "result.json", "episode_return_mean")
    assert changed.columns.values["episode_return_mean"].tolist() == [1, 9, 5]
    assert [row["episode_return_mean"] for row in changed.results()] == [1, 9, 5]
    assert changed.best_return == 9.0


def test_a_return_above_the_best_return_in_trial_json_is_reported_and_ignored(trial: TrialResult, wording) -> None:
    shutil.rmtree(trial.directory / "checkpoints")
    changed = change_rows(trial, "5.0}", "99.0}")
    assert changed.problems == wording(trial.directory / "result.json", "episode_return_mean", "trial.json", "99")
    assert (changed.best("episode_return_mean"), changed.best_return) == (9, 9)


def test_missing_rows_are_reported_and_read_from_checkpoints_if_possible(trial: TrialResult, wording) -> None:
    shutil.rmtree(trial.directory / "checkpoints/iteration_000002")
    (trial.directory / "result.json").unlink()
    read = replace(trial, metrics=("episode_return_mean",))
    file = trial.directory / "result.json"
    assert read.problems == wording(file)
    assert read.columns.values["episode_return_mean"].tolist() == [1, 5]


def test_rows_and_checkpoints_newer_than_trial_json_cause_no_problem_in_a_killed_trial(trial: TrialResult) -> None:
    record = TrialDirectory(trial.directory).read_record()
    assert record is not None
    TrialDirectory(trial.directory).write_record(replace(record, status="RUNNING", iteration=2, best_return=None))
    killed = change_rows(trial, "5.0}", "7.0}")
    assert killed.status == "KILLED"
    assert killed.problems == ()
    assert killed.best_return == 9.0


def test_a_best_return_that_is_not_a_number_is_reported_as_damage(trial: TrialResult, wording) -> None:
    file = trial.directory / "trial.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "best_return": "nine"}))
    read = read_trial(trial.directory, "pole", has_driver=False)
    (problem,) = read.problems
    assert problem == wording(file, "best_return")


def test_the_best_score_of_a_trial_with_evaluations_is_taken_from_its_evaluations(tmp_path: Path) -> None:
    metric = "evaluation/episode_return_mean"
    directory = TrialDirectory(tmp_path / "000")
    record = TrialRecord("000", "RUNNING", seed=0, judged_by=metric)
    directory.write_record(record)
    writer = ResultWriter(directory.path)
    for iteration, value in enumerate([None, 500.0, None], start=1):
        writer.write({"iteration": iteration, "env_steps": 1, "episode_return_mean": 900.0, metric: value})
    writer.close()
    running = read_trial(directory.path, "pole", has_driver=False)
    assert (running.judged_by, running.best_score, running.best_return) == (metric, 500.0, 900.0)
    directory.write_record(replace(record, status="TERMINATED", iteration=3, best_return=900.0, best_score=500.0))
    assert read_trial(directory.path, "pole", has_driver=False).best_score == 500.0
    directory.write_record(replace(record, status="TERMINATED", best_score="many"))  # type: ignore[arg-type]
    assert "best_score" in read_trial(directory.path, "pole", has_driver=False).error


def test_a_trial_of_an_earlier_rlrun_version_is_judged_by_its_return(trial: TrialResult) -> None:
    file = trial.directory / "trial.json"
    said = json.loads(file.read_text())
    file.write_text(json.dumps({key: said[key] for key in said if key not in ("sha256", "judged_by", "best_score")}))
    older = read_trial(trial.directory, "pole", has_driver=False)
    assert (older.judged_by, older.best_score) == ("episode_return_mean", 9.0)


def test_an_altered_trial_json_is_reported_as_damage(trial: TrialResult, wording) -> None:
    file = trial.directory / "trial.json"
    file.write_text(file.read_text().replace('"best_return": 9.0', '"best_return": 8.0'))
    read = read_trial(trial.directory, "pole", has_driver=False)
    assert read.problems == wording(file)


def test_obvious_problems_are_reported_without_reading_all_rows(trial: TrialResult, wording) -> None:
    file = trial.directory / "result.json"
    lines = file.read_bytes().splitlines(keepends=True)
    assert trial.obvious_problems == ()
    file.write_bytes(b"".join([b"garbage\n", *lines[1:]]))
    assert read_trial(trial.directory, "pole", has_driver=False).obvious_problems == ()
    file.write_bytes(b"".join(lines[:2]))
    assert read_trial(trial.directory, "pole", has_driver=False).obvious_problems == wording(file, "trial.json")
    (trial.directory / "spec.yaml").write_bytes(bytes(50))
    assert trial.obvious_problems == wording(trial.directory / "spec.yaml")


def test_a_trial_without_returns_is_recognized_without_reading_its_rows(trial: TrialResult) -> None:
    directory = TrialDirectory(trial.directory)
    record = directory.read_record()
    assert record is not None
    directory.write_record(replace(record, best_return=None, results_sha256="0" * 64))
    assert read_trial(trial.directory, "pole", has_driver=False).best_return is None
    directory.write_record(replace(record, best_return=None))  # an earlier version did not record it
    assert read_trial(trial.directory, "pole", has_driver=False).best_return == 9.0
