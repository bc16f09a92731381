"""Timeline and history of a run: when trials were trained, and the best result after each number of trials."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from rlrun.engine.checkpoint.manifest import manifest_bytes
from rlrun.report.configurations import groups_of
from rlrun.report.reading import read_run
from rlrun.report.timeline import history, timeline

MakeRun = Callable[..., Path]


def test_trials_that_ran_at_the_same_time_are_in_different_lanes(make_sweep: MakeRun) -> None:
    run = make_sweep({0.1: [[1, 2], [1, 2]], 0.2: [[3, 4]]})  # 4 s of training each
    for trial, end in zip(sorted(run.glob("0*")), (1004, 1006, 1009), strict=True):
        for file in ("trial.json", "result.json"):
            os.utime(trial / file, (end, end))
    spans = timeline(read_run(run))
    assert [(span.start, span.stop, span.lane) for span in spans] == [(0, 4, 0), (2, 6, 1), (5, 9, 0)]


def test_the_end_time_of_a_copied_trial_is_taken_from_its_checkpoint(make_sweep: MakeRun) -> None:
    run = make_sweep({0.1: [[1], [1]]})
    first, second = sorted(run.glob("0*"))
    checkpoint = second / "checkpoints" / "iteration_000001"
    checkpoint.mkdir(parents=True)
    (checkpoint / "manifest.json").write_bytes(manifest_bytes({}, {}))
    for trial in (first, second):
        for file in ("trial.json", "result.json"):
            os.utime(trial / file, (1000, 1000))
    assert [span.start > 1e6 for span in timeline(read_run(run))] == [False, True]


def test_trials_that_have_not_trained_have_no_span_in_the_timeline(make_sweep: MakeRun) -> None:
    assert timeline(read_run(make_sweep({0.1: [[]]}))) == []


def test_the_history_gives_the_best_score_and_the_total_seconds_after_each_configuration(make_sweep: MakeRun) -> None:
    run = read_run(make_sweep({0.1: [[2], [4]], 0.2: [[1]], 0.3: [[None]], 0.4: [[5, 6]]}))
    scores = {"lr=0.1": 3.0, "lr=0.2": 1.0, "lr=0.4": 6.0}
    steps = history(groups_of(run), scores, "max")
    assert [(step.score, step.best, step.seconds) for step in steps] == [(3, 3, 4), (1, 3, 6), (6, 6, 12)]
    assert [step.best for step in history(groups_of(run), scores, "min")] == [3, 1, 1]
