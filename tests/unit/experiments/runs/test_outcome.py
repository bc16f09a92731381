"""What is complete, has failed, or is left; and the error of a call that leaves something."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlrun.engine.messages.errors import DiskFull, Interrupted, RayEnded, TrainingFailed
from rlrun.experiments.runs.outcome import call_failure, failure_of, resume_command, shown_path
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.runs.trial_status import Status, is_complete, is_over

RUN = Path("/runs/pole")
LEFT = "continue with: rlrun resume /runs/pole"


def trial(name: str, status: Status, error: str = "") -> TrialResult:
    return TrialResult(name, RUN / name, "pole", status, error=error)


@pytest.mark.parametrize(
    ("status", "complete", "over"),
    [
        ("TERMINATED", True, True),
        ("ERROR", False, True),
        ("PENDING", False, False),
        ("RUNNING", False, False),
        ("PAUSED", False, False),
        ("INTERRUPTED", False, False),
        ("KILLED", False, False),
        ("DAMAGED", False, False),
    ],
)
def test_only_terminated_trials_are_complete_and_only_terminated_or_failed_ones_are_over(
    status: Status, complete: bool, over: bool
) -> None:
    assert (is_complete(status), is_over(status)) == (complete, over)


def test_a_run_whose_trials_are_all_complete_has_not_failed() -> None:
    assert failure_of([trial("000", "TERMINATED")]) is None


def test_a_runs_failure_lists_its_trials_errors_and_the_command_to_continue(wording) -> None:
    trials = [trial("000", "TERMINATED"), trial("001", "ERROR", "it burns"), trial("002", "KILLED")]
    failure = failure_of(
        [*trials, trial("003", "RUNNING")], {RUN / "003": TrainingFailed("another process is running it")}
    )
    assert str(failure) == wording("/runs/pole", "001", "003")


def test_a_call_that_leaves_no_trials_unfinished_does_not_fail_even_if_some_trials_failed() -> None:
    assert call_failure([trial("000", "ERROR", "it burns")], [], signal="SIGINT", fault=None, errors={}) is None


def test_a_call_that_leaves_trials_unfinished_without_a_signal_fails(wording) -> None:
    found = call_failure([trial("000", "KILLED")], [resume_command(RUN)], signal="", fault=None, errors={})
    assert isinstance(found, TrainingFailed)
    assert str(found) == wording(LEFT, "000")


def test_a_search_with_trials_left_to_create_fails_even_if_all_created_trials_are_complete(wording) -> None:
    found = call_failure([trial("000", "TERMINATED")], [resume_command(RUN)], signal="", fault=None, errors={})
    assert isinstance(found, TrainingFailed)
    assert str(found) == wording(LEFT)


@pytest.mark.parametrize(
    ("fault", "exit_code", "text"),
    [
        (None, 130, f"SIGINT: stopped; {LEFT}"),
        (DiskFull("no room"), 7, f"no room; after that, {LEFT}"),
        (RayEnded("Ray has ended"), 4, f"Ray has ended; {LEFT}"),
    ],
)
def test_what_stopped_all_trials_is_reported_before_the_list_of_unfinished_trials(
    fault: DiskFull | RayEnded | None, exit_code: int, text: str
) -> None:
    found = call_failure([trial("000", "INTERRUPTED")], [resume_command(RUN)], signal="SIGINT", fault=fault, errors={})
    assert isinstance(found, Interrupted | DiskFull | RayEnded)
    assert (found.exit_code, str(found)) == (exit_code, text)


def test_resume_commands_are_quoted_and_use_relative_paths_if_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.chdir(tmp_path)
    assert resume_command(tmp_path / "a run") == wording()
    assert resume_command(tmp_path / "runs/pole", retry_failed=True) == wording("runs/pole")
    assert shown_path(Path("/elsewhere")) == "/elsewhere"
