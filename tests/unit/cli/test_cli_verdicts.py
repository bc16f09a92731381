"""What regress prints, what doctor times, what train suggests, and numbers that JSON lacks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rlrun.cli.json_document import print_json
from rlrun.cli.outcome import next_steps, results_table
from rlrun.cli.regress import verdicts_text
from rlrun.cli.timings import tune
from rlrun.engine.checkpoint.format import Content
from rlrun.engine.checkpoint.store import CheckpointStore
from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.runs.trial_result import TrialResult, read_trial
from rlrun.experiments.trial.trial_directory import TrialDirectory, TrialRecord, TrialStatus
from rlrun.report.regression.verdicts import Case, JudgedValue, Verdict


def case(seed: int, value: float) -> Case:
    return Case(f"{seed:03d}", seed, "", Path("runs"), 2048, 1.5, {"m": value}, {"m": 475.0})


def test_verdicts_show_the_value_reached_and_the_value_expected(wording) -> None:
    verdict = Verdict("pole", (case(0, 431.25), case(1, 480.0)), needed=2)
    assert [line.split() for line in verdicts_text([verdict]).splitlines()[1:3]] == [
        ["pole", "000", "2,048", "1.5", "s", "m", "431.2", "475.0", "missed"],
        ["pole", "001", "2,048", "1.5", "s", "m", "480.0", "475.0", "reached"],
    ]
    assert verdicts_text([verdict]).splitlines()[-1] == wording()


@pytest.mark.parametrize(("value", "told"), [(480.0, "gate too weak"), (10.0, "missed, as expected")])
def test_the_verdict_of_a_control_run_says_whether_the_gate_is_too_weak(value: float, told: str) -> None:
    verdict = Verdict("pole", (case(0, value),), needed=1, control=True)
    assert f"pole        {told}  " in verdicts_text([verdict])


def test_verdicts_show_the_comparison_with_the_baseline_if_there_is_one(wording) -> None:
    area = JudgedValue("worse", 200.0, 150.0, -50.0, -60.0, -40.0)
    speed = JudgedValue("not judged", is_ratio=True, note="another machine: cpus 2, then 8")
    text = verdicts_text([Verdict("pole", (case(0, 480.0),), needed=1, area=area, speed=speed)])
    assert wording("200", "150", "-50") in text.splitlines()
    assert wording("steps/s") in text.splitlines()
    assert text.splitlines()[-1].startswith("pole        worse ")


def test_tuning_refuses_algorithms_without_batches(tmp_path: Path, wording) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("pole: {algorithm: dqn, env: CartPole-v1, stop: {env_steps: 1000}}\n")
    with wording.raised(UsageError, "train_batch_size"):
        tune(spec)


def trial(directory: Path, status: TrialStatus, mean: float | None = None, checkpoint: bool = True) -> TrialResult:
    row = {"env_steps": 5, "time_total_s": 2.0, "episode_return_mean": mean}
    if checkpoint:
        store = CheckpointStore(directory / "checkpoints")
        store.commit(store.stage(10, Content({"algorithm": "ppo"}, {"algorithm": "ppo"}), row))
    files = TrialDirectory(directory)
    files.write_record(TrialRecord(directory.name, status, seed=0, best_return=mean))
    files.write_spec({"checkpoint": {"best": "env_steps"}})
    return read_trial(directory, "pole", has_driver=False)


def test_evaluation_is_suggested_after_a_finished_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording) -> None:
    monkeypatch.chdir(tmp_path)
    lines = next_steps([trial(tmp_path / "runs/pole/000", "TERMINATED")])
    assert lines == wording("runs/pole", "20")


def test_resuming_or_retrying_is_suggested_after_an_unfinished_or_failed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.chdir(tmp_path)
    interrupted = trial(tmp_path / "runs/a b/000", "INTERRUPTED", checkpoint=False)
    failed = trial(tmp_path / "runs/pole/000", "ERROR", checkpoint=False)
    assert next_steps([interrupted, failed]) == wording("runs/a", "runs/pole")


def test_evaluation_of_the_best_trial_is_suggested_after_several_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.chdir(tmp_path)
    means = [None, 20.5, 11.0]
    trials = [trial(tmp_path / f"runs/pole/00{number}", "TERMINATED", mean) for number, mean in enumerate(means)]
    assert next_steps(trials)[1:3] == wording("runs/pole/001", "20.5")
    assert [line.split()[5] for line in results_table(trials).splitlines()[1:]] == ["-", "20.5", "11"]


def test_printed_json_contains_null_in_place_of_nan_and_infinity(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [float("nan"), 1.5], "b": (float("inf"), None)})
    assert json.loads(capsys.readouterr().out) == {"a": [None, 1.5], "b": [None, None]}


def test_the_outcome_of_a_run_with_evaluations_shows_its_best_evaluation(tmp_path: Path, wording) -> None:
    found = []
    for number, (mean, score) in enumerate([(174.7, 454.0), (90.0, 500.0)]):
        one = trial(tmp_path / f"runs/pole/00{number}", "TERMINATED", mean)
        found.append(replace(one, judged_by="evaluation/episode_return_mean", best_score=score))
    assert next_steps(found)[1] == wording("500.0", "001")
    assert "evaluation  best evaluation" in results_table(found).splitlines()[0]
