"""Messages about a trial that failed according to Tune."""

from ray.exceptions import OutOfMemoryError

from rlrun.engine.messages.errors import ExitCode
from rlrun.experiments.tune.tune_executor import read_tune_error


def test_a_trial_that_failed_several_times_at_its_start_is_reported_by_its_latest_failure(wording) -> None:
    lack = OutOfMemoryError("1 worker(s) were killed due to the node running low on memory.\nTop 10 memory users: PID")
    told = read_tune_error("000", f"Failure # 1 (occurred at noon)\nboom\nFailure # 2 (occurred later)\n{lack}\n")
    assert str(told) == wording("000")
    assert told.exit_code == ExitCode.DISK_OR_MEMORY


def test_errors_of_tune_that_rlrun_does_not_recognize_are_reported_verbatim() -> None:
    assert str(read_tune_error("000", "Failure # 1 (occurred at noon)\nboom\n")) == "000: boom"
