"""Summaries of runs, in numbers and words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from rlrun.engine.checkpoint.format import Content
from rlrun.engine.checkpoint.store import CheckpointStore
from rlrun.experiments.trial.trial_directory import TrialDirectory, TrialRecord
from rlrun.report.configurations import groups_of
from rlrun.report.reading import read_run
from rlrun.report.summary import best_trial, shape_text, status_text, summarise, varied_text

MakeRun = Callable[..., Path]
RETURN = "episode_return_mean"


def save(trial: Path, returns: dict[int, float]) -> CheckpointStore:
    store = CheckpointStore(trial / "checkpoints", keep=9)
    for iteration, value in returns.items():
        store.commit(store.stage(iteration, Content({"algorithm": "ppo"}, {"algorithm": "ppo"}), {RETURN: value}))
    return store


def test_configurations_are_summarized_over_their_seeds_and_ranked_from_the_best(make_sweep: MakeRun) -> None:
    run = read_run(make_sweep({0.1: [[9, 1], [9, 3]], 0.2: [[1, 5], [1, 2, 7]], 0.3: [[None], []]}))
    summaries = summarise(groups_of(run), RETURN, "max")
    assert [(s.label, s.seeds, s.mean and s.mean.value, s.iqm and s.iqm.value, s.best) for s in summaries] == [
        ("lr=0.2", 2, 6.0, 6.0, 7.0),
        ("lr=0.1", 2, 2.0, 2.0, 9.0),
        ("lr=0.3", 2, None, None, None),
    ]
    assert summaries[0].mean is not None
    assert (summaries[0].mean.low, summaries[0].mean.high) == (5, 7)
    assert summaries[0].env_steps == 250
    assert [s.label for s in summarise(groups_of(run), RETURN, "min")] == ["lr=0.1", "lr=0.2", "lr=0.3"]


def test_evaluations_take_precedence_over_training_returns_when_ranking_configurations(make_sweep: MakeRun) -> None:
    metric = f"evaluation/{RETURN}"
    path = make_sweep({0.1: [[174.7, 174.7]], 0.2: [[90, 90]]}, spec={"checkpoint": {"best": metric}})
    for trial, measured in (("000-lr=0.1-seed=0", 454.0), ("001-lr=0.2-seed=0", 500.0)):
        lines = (path / trial / "result.json").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        rows[0][metric] = measured  # the second iteration has no evaluation
        (path / trial / "result.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = read_run(path)
    judged, mode = run.goal
    found = summarise(groups_of(run), judged, mode)
    assert [(one.label, one.mean and one.mean.value, one.counterpart) for one in found] == [
        ("lr=0.2", 500.0, 90.0),
        ("lr=0.1", 454.0, 174.7),
    ]
    assert [one.counterpart for one in summarise(groups_of(run), RETURN, "max")] == [454.0, 500.0]
    best, _ = best_trial(run, judged, mode)
    assert best is not None
    assert best.trial == "001-lr=0.2-seed=0"


def test_the_best_trial_is_given_with_its_best_checkpoint(make_sweep: MakeRun) -> None:
    path = make_sweep({0.1: [[1, 9, 3]], 0.2: [[5]]})
    save(path / "000-lr=0.1-seed=0", {1: 1.0, 2: 9.0, 3: 3.0})
    best, problems = best_trial(read_run(path), RETURN, "max")
    assert best is not None
    assert (best.trial, best.value, problems) == ("000-lr=0.1-seed=0", 9.0, [])
    assert best.checkpoint is not None
    assert best.checkpoint.name == "iteration_000002"


def test_a_damaged_best_checkpoint_is_reported_and_the_next_best_is_used(make_sweep: MakeRun) -> None:
    path = make_sweep({0.1: [[1, 9]], 0.2: [[5]]})
    store = save(path / "000-lr=0.1-seed=0", {1: 1.0, 2: 9.0})
    (store.directory / "iteration_000002" / "state.npz").write_bytes(b"")
    best, problems = best_trial(read_run(path), RETURN, "max")
    assert best is not None
    assert best.checkpoint is not None
    assert best.checkpoint.name == "iteration_000001"
    assert len(problems) == 1
    assert "state.npz" in problems[0]


def test_a_best_trial_is_found_without_checkpoints_but_not_without_values(make_sweep: MakeRun) -> None:
    best, _ = best_trial(read_run(make_sweep({0.1: [[1]]}, name="a")), RETURN, "max")
    assert best is not None
    assert best.checkpoint is None
    assert best_trial(read_run(make_sweep({0.1: [[]]}, name="b")), RETURN, "max") == (None, [])


def test_the_numbers_of_configurations_seeds_and_trials_of_a_run_are_described_in_words(
    make_sweep: MakeRun, make_population: MakeRun, wording
) -> None:
    def shape(path: Path) -> str:
        return shape_text(read_run(path))

    assert shape(make_sweep({0.1: [[1], [1]], 0.2: [[1], [1]]}, name="a")) == wording()
    assert shape(make_sweep({0.1: [[1], [1]], 0.2: [[1]]}, name="b")) == wording()
    assert shape(make_sweep({0.1: [[1], [1]]}, name="c")) == wording()
    assert shape(make_sweep({0.1: [[1]]}, name="d")) == "1 trial"
    assert shape(make_sweep({}, name="e")) == "0 trials"
    assert shape(make_population()) == wording()


def test_statuses_of_trials_are_counted_if_they_differ(make_sweep: MakeRun, wording) -> None:
    path = make_sweep({0.1: [[1], [1]], 0.2: [[1]]})
    assert status_text(read_run(path).trials) == "terminated"
    TrialDirectory(path / "002-lr=0.2-seed=0").write_record(TrialRecord("x", "ERROR", 0))
    assert status_text(read_run(path).trials) == wording()
    assert status_text([]) == ""


def test_varied_settings_are_shown_with_their_values_or_range(make_sweep: MakeRun) -> None:
    few = read_run(make_sweep({0.1: [[1]], 0.2: [[1]]}, name="a"))
    many = read_run(make_sweep({n / 10: [[1]] for n in range(9)}, name="b"))
    assert (varied_text(few), varied_text(many)) == ({"lr": "0.1, 0.2"}, {"lr": "0 to 0.8"})
