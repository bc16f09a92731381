"""Messages about a trial that failed according to Tune."""

from ray.exceptions import OutOfMemoryError

from rlrun.engine.messages.errors import ExitCode
from rlrun.experiments.tune.tune_executor import read_tune_error


def test_a_trial_that_did_not_fit_into_memory_when_it_started_is_told_by_its_newest_failure(wording) -> None:
    lack = OutOfMemoryError("1 worker(s) were killed due to the node running low on memory.\nTop 10 memory users: PID")
    told = read_tune_error("000", f"Failure # 1 (occurred at noon)\nboom\nFailure # 2 (occurred later)\n{lack}\n")
    assert str(told) == wording("000")
    assert told.exit_code == ExitCode.DISK_OR_MEMORY


def test_what_else_tune_has_as_a_text_is_told_as_it_is() -> None:
    assert str(read_tune_error("000", "Failure # 1 (occurred at noon)\nboom\n")) == "000: boom"
