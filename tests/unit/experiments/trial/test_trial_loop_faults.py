"""What a trial reports and keeps when the machine fails."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun.engine.checkpoint.format import read_checkpoint, write_checkpoint
from rlrun.engine.messages.errors import LONGEST_TEXT, CompilerMissing, OutOfResources, TrainingFailed
from rlrun.experiments.runs.trial_result import read_trial
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.results import read_results
from rlrun.experiments.trial.trial_directory import TrialDirectory
from rlrun.experiments.trial.trial_loop import TrialLoop
from rlrun.toys.known_optimum import ConstantReward
from tests.files import files_of_at_most

MakeTrial = Callable[..., TrialSpec]


def test_a_full_disk_ends_the_trial_and_leaves_its_earlier_checkpoints_intact(
    tmp_path: Path, small_trial: MakeTrial, wording
) -> None:
    trial = small_trial(stop={"iteration": 4})
    with TrialLoop(trial, tmp_path) as loop:
        for _ in range(3):
            loop.step()
        with files_of_at_most(20_000), pytest.raises(OutOfResources) as caught:
            loop.step()
    message = str(caught.value)
    assert message == wording(tmp_path / "checkpoints" / "iteration_000004")
    record = TrialDirectory(tmp_path).read_record()
    assert record is not None
    assert (record.status, record.error) == ("INTERRUPTED", message)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["iteration_000002"]
    with TrialLoop(trial, tmp_path, resume=True) as loop:
        assert loop.training.iteration == 2
        while not loop.done:
            loop.step()
    assert [row["iteration"] for row in read_results(tmp_path)] == [1, 2, 3, 4]


def test_a_trial_on_a_disk_too_full_to_write_anything_still_gives_the_reason_for_its_failure(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    with TrialLoop(small_trial(), tmp_path) as loop:
        loop.step()
        with files_of_at_most(0), pytest.raises(OutOfResources, match=r"result\.json: File too large"):
            loop.step()
    with TrialLoop(small_trial(), tmp_path, resume=True) as loop:
        assert loop.step()["iteration"] == 1


def test_a_compiled_trial_without_a_compiler_is_not_resumed_unless_eager_mode_is_requested(
    tmp_path: Path, small_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    trial = small_trial(stop={"iteration": 3}, config={"precision": "bfloat16"})
    with TrialLoop(trial, tmp_path) as loop:
        loop.step()
        checkpoint = loop.save()
    content = read_checkpoint(checkpoint)
    write_checkpoint(checkpoint, replace(content, manifest={**content.manifest, "update_executor": "compiled"}))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with wording.raised(CompilerMissing):
        TrialLoop(trial, tmp_path, resume=True)
    with TrialLoop(trial, tmp_path, resume=True, eager=True) as loop:
        assert loop.resumption is not None
        assert loop.resumption.message == wording()
        loop.step()
    record = TrialDirectory(tmp_path).read_record()
    assert record is not None
    assert record.exact_resume is False


def test_episodes_that_cannot_be_restored_make_the_resume_inexact_and_are_reported(
    tmp_path: Path, small_trial: MakeTrial, wording
) -> None:
    trial = small_trial(env={"id": "CartPole-v1", "max_replay_s": 1e-9}, checkpoint={"every": 1})
    with TrialLoop(trial, tmp_path) as loop:
        loop.step()
    with TrialLoop(trial, tmp_path, resume=True) as loop:
        assert loop.resumption is not None
        assert loop.resumption.env_slots_restarted > 0
        assert loop.resumption.message == wording()
        assert loop.step()["iteration"] == 2
    for _ in range(2):  # once inexact, the trial stays inexact
        record = TrialDirectory(tmp_path).read_record()
        assert record is not None
        assert record.exact_resume is False
        with TrialLoop(small_trial(), tmp_path, resume=True):
            pass


def test_rows_lost_in_a_power_cut_are_restored_from_the_checkpoints(tmp_path: Path, small_trial: MakeTrial) -> None:
    trial = small_trial(checkpoint={"every": 1})
    with TrialLoop(trial, tmp_path) as loop:
        first, second = loop.step(), loop.step()
    (tmp_path / "result.json").write_bytes(b"\0" * 100 + b"\n")
    with TrialLoop(trial, tmp_path, resume=True) as loop:
        assert loop.last_result == second
        assert loop.resumption is not None
        assert "rows of iterations 1 to 2 were missing and restored from checkpoints" in loop.resumption.message
    assert read_results(tmp_path) == [first, second]


def test_trial_json_counts_only_iterations_whose_row_was_written(
    tmp_path: Path, small_trial: MakeTrial, users_file: Path
) -> None:
    with TrialLoop(small_trial(algorithm="my_lab:Diverges"), tmp_path / "t") as loop:
        loop.step()
        loop.step()
        with pytest.raises(TrainingFailed):
            loop.step()
    record = TrialDirectory(tmp_path / "t").read_record()
    assert record is not None
    assert record.iteration == read_results(tmp_path / "t")[-1]["iteration"]
    assert read_trial(tmp_path / "t", "small", has_driver=False).problems == ()


def test_a_resume_restores_the_exact_parameters_and_observation_statistics(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    trial = small_trial(config={"normalize_observations": True})
    with TrialLoop(trial, tmp_path) as loop:
        loop.step()
        loop.save()
        flat, filters = loop.training.running.trainee.learner.flat(), loop.training.running.trainee.filters.moments
    with TrialLoop(trial, tmp_path, resume=True) as loop:
        np.testing.assert_array_equal(loop.training.running.trainee.learner.flat(), flat)
        assert loop.training.running.trainee.filters.moments.keys() == filters.keys()


class Verbose(ConstantReward):
    """Raises an error with a text of three million characters."""

    def step(self, action: int) -> Any:
        raise ValueError("a" + 3_000_000 * "x" + "z")


def test_a_huge_error_message_is_kept_whole_in_error_txt_and_shortened_in_the_middle_in_trial_json(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    trial = small_trial(env=f"{__name__}:Verbose")
    with TrialLoop(trial, tmp_path) as loop, pytest.raises(TrainingFailed) as caught:
        loop.step()
    record = TrialDirectory(tmp_path).read_record()
    assert record is not None
    assert record.error == str(caught.value)
    assert len(record.error) <= LONGEST_TEXT
    assert record.error.startswith(f"env {__name__}:Verbose raised an exception in step() (worker 0, env 0, ")
    assert "characters omitted ...\n" in record.error
    assert record.error.endswith("xz")
    assert 3_000_000 * "x" in (tmp_path / "error.txt").read_text()


def test_a_custom_wrapper_whose_rewards_cannot_be_replayed_makes_the_resume_inexact(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    wrapper = "tests.unit.engine.envs.test_loop_vector_env:PaysByStepsEver"
    trial = small_trial(env={"id": "CartPole-v1", "wrappers": [wrapper]}, checkpoint={"every": 1})
    with TrialLoop(trial, tmp_path) as loop:
        for _ in range(5):  # until some envs have begun a second episode
            loop.step()
    with TrialLoop(trial, tmp_path, resume=True) as loop:
        assert loop.resumption is not None
        assert loop.resumption.env_slots_restarted > 0
        assert not loop.resumption.is_exact


def test_a_wrapper_whose_statistics_are_not_saved_is_named_and_makes_the_resume_inexact(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    trial = small_trial(env={"id": "CartPole-v1", "wrappers": ["NormalizeReward"]}, checkpoint={"every": 1})
    with TrialLoop(trial, tmp_path) as loop:
        loop.step()
    with TrialLoop(trial, tmp_path, resume=True) as loop:
        assert loop.resumption is not None
        assert "statistics of NormalizeReward" in loop.resumption.message
        assert loop.resumption.env_slots_restarted == 4
    record = TrialDirectory(tmp_path).read_record()
    assert record is not None
    assert record.exact_resume is False
