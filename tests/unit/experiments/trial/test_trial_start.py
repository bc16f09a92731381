from collections.abc import Callable
from pathlib import Path

import pytest

from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.trial_checkpoints import TrialCheckpoints
from rlrun.experiments.trial.trial_directory import TrialDirectory, TrialStatus
from rlrun.experiments.trial.trial_journal import TrialJournal
from rlrun.experiments.trial.trial_start import TrialStart


@pytest.mark.parametrize(
    ("before", "restarts", "was_paused"),
    [(None, False, False), ("PENDING", False, False), ("RUNNING", True, False), ("PAUSED", True, True)],
)
def test_starting_without_a_checkpoint_is_reported_as_a_restart_if_the_trial_ran_before(
    tmp_path: Path, small_trial: Callable[..., TrialSpec], before: TrialStatus | None, restarts: bool, was_paused: bool
) -> None:
    trial = small_trial()
    files = TrialDirectory(tmp_path)
    checkpoints = TrialCheckpoints(files.checkpoints, trial.checkpoint)
    if before is not None:
        earlier = TrialJournal(trial, files, checkpoints, print)
        earlier.write(before)
    journal = TrialJournal(trial, files, checkpoints, print)
    start = TrialStart(trial, journal, resume=True, from_checkpoint=None)
    training = start.training(None, eager=False)
    try:
        resumption = start.restore(training, eager=False)
    finally:
        training.close()
        checkpoints.close()
    assert (start.point, start.was_paused) == (None, was_paused)
    assert (resumption is not None) == restarts
    if resumption is not None:
        assert resumption.checkpoint is None
        assert resumption.crash.startswith("the previous process was killed or crashed") == (before == "RUNNING")
    record = files.read_record()
    assert record is not None
    assert (record.status, files.read_spec()["seed"]) == ("RUNNING", trial.seed)
