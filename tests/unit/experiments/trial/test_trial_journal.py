from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlrun.engine.checkpoint.format import Content
from rlrun.engine.messages.errors import DiskFull
from rlrun.engine.messages.silent_message import SilentMessage
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.results import read_results
from rlrun.experiments.trial.trial_checkpoints import TrialCheckpoints
from rlrun.experiments.trial.trial_directory import ERROR_FILE, TrialDirectory, TrialRecord
from rlrun.experiments.trial.trial_journal import TrialJournal


@pytest.fixture
def announced() -> list[str]:
    return []


@pytest.fixture
def journal(tmp_path: Path, small_trial: Callable[..., TrialSpec], announced: list[str]) -> Iterator[TrialJournal]:
    trial = small_trial()
    files = TrialDirectory(tmp_path)
    checkpoints = TrialCheckpoints(files.checkpoints, trial.checkpoint)
    journal = TrialJournal(trial, files, checkpoints, announced.append)
    yield journal
    checkpoints.close()
    journal.close_files()


def record_of(journal: TrialJournal) -> TrialRecord:
    record = journal.files.read_record()
    assert record is not None
    return record


def test_the_record_has_the_counters_of_the_newest_row_and_the_best_of_all_rows(journal: TrialJournal) -> None:
    for iteration, mean in enumerate((3.0, 7.0, 5.0), start=1):
        journal.note_row(
            journal.add({"iteration": iteration, "env_steps": 64 * iteration, "episode_return_mean": mean})
        )
    journal.stop_reason = "iteration 3 >= 3"
    journal.write("TERMINATED")
    record = record_of(journal)
    assert (record.iteration, record.env_steps, record.best_return) == (3, 192, 7.0)
    assert (record.status, record.stop_reason, record.pid) == ("TERMINATED", "iteration 3 >= 3", None)
    assert [row["iteration"] for row in read_results(journal.files.path)] == [1, 2, 3]
    assert record.results_bytes == (journal.files.path / "result.json").stat().st_size


def test_ownership_is_confirmed_before_each_row_and_before_a_checkpoint_gets_its_final_name(
    tmp_path: Path, small_trial: Callable[..., TrialSpec]
) -> None:
    trial, files = small_trial(), TrialDirectory(tmp_path)
    seen: list[tuple[int, int]] = []
    checkpoints = TrialCheckpoints(files.checkpoints, trial.checkpoint)

    def confirm() -> None:
        seen.append((len(read_results(tmp_path)), len(checkpoints.store.paths())))

    journal = TrialJournal(trial, files, checkpoints, print, confirm)
    for iteration in (1, 2):
        journal.add({"iteration": iteration, "env_steps": 64 * iteration})
        journal.begin_checkpoint(iteration, lambda: Content({}, {"seed": 0}, {}, {}), 0)
        checkpoints.wait()
    checkpoints.close()
    journal.close_files()
    assert seen == [(0, 0), (1, 0), (1, 1), (2, 1)]


def test_a_note_is_announced_and_recorded_once_and_a_silent_message_is_only_recorded(
    journal: TrialJournal, announced: list[str]
) -> None:
    journal.note("a slow disk")
    journal.note(SilentMessage("updates run in torch"))
    assert announced == ["a slow disk"]
    assert record_of(journal).notes == ["a slow disk", "updates run in torch"]


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError("no such column"), "ERROR"), (DiskFull("no space"), "INTERRUPTED")],
)
def test_a_failure_is_recorded_with_its_traceback_and_can_be_resumed_only_if_a_disk_was_full(
    journal: TrialJournal, error: Exception, status: str, wording
) -> None:
    journal.write_failure(error, shown=RuntimeError("line 3: no such column"))
    record = record_of(journal)
    assert (record.status, record.error) == (status, wording("RuntimeError"))
    assert type(error).__name__ in (journal.files.path / ERROR_FILE).read_text()


def test_a_running_trial_that_is_closed_is_pending_and_one_that_has_ended_keeps_its_status(
    journal: TrialJournal,
) -> None:
    journal.close_files()
    assert record_of(journal).status == "PENDING"
    journal.write("TERMINATED")
    journal.close_files()
    assert record_of(journal).status == "TERMINATED"
