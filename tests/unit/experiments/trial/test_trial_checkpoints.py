"""A checkpoint is written while its trial continues, but holds the state at its iteration."""

import errno
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.messages.errors import DiskFull
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.trial.results import read_results
from rlrun.experiments.trial.trial_directory import TrialDirectory
from rlrun.experiments.trial.trial_loop import TrialLoop

MakeTrial = Callable[..., TrialSpec]


@contextmanager
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Prevents syncs in other threads from ending before the block does."""
    ends, sync, here = threading.Event(), os.fsync, threading.get_ident()

    def waiting(descriptor: int) -> None:
        if threading.get_ident() != here:
            ends.wait()
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", waiting)
    try:
        yield
    finally:
        ends.set()


def weights(checkpoint: Path) -> bytes:
    return (checkpoint / "policies/default.safetensors").read_bytes()


def test_training_continues_while_a_checkpoint_is_written_to_a_slow_disk(
    tmp_path: Path, small_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = small_trial(stop={"iteration": 5}, checkpoint={"every": 3, "at_end": False})
    with TrialLoop(trial, tmp_path / "quick") as loop:
        while not loop.done:
            loop.step()
    place = tmp_path / "slow/checkpoints/iteration_000003"
    with TrialLoop(trial, tmp_path / "slow") as loop:
        with slow_disk(monkeypatch):
            for _ in range(4):
                loop.step()
            assert not place.exists()
        loop.checkpoints.wait()
        assert loop.checkpoints.newest == place
        loop.step()
    assert read_checkpoint(place).manifest["result"]["iteration"] == 3
    assert weights(place) == weights(tmp_path / "quick/checkpoints/iteration_000003")


def test_closing_a_trial_waits_for_its_unfinished_checkpoint(
    tmp_path: Path, small_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = small_trial(stop={"iteration": 5}, checkpoint={"every": 1})
    with TrialLoop(trial, tmp_path) as loop, slow_disk(monkeypatch):
        loop.step()
    record = TrialDirectory(tmp_path).read_record()
    assert record is not None
    assert (record.status, record.iteration) == ("PENDING", 1)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["iteration_000001"]


def test_a_disk_that_fills_up_during_a_checkpoint_ends_the_trial_at_the_next_checkpoint(
    tmp_path: Path, small_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = small_trial(stop={"iteration": 6}, checkpoint={"every": 2})
    sync, here = os.fsync, threading.get_ident()

    def full(descriptor: int) -> None:
        if threading.get_ident() != here and "iteration_000004" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    with TrialLoop(trial, tmp_path) as loop, monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        for _ in range(5):
            loop.step()
        with pytest.raises(DiskFull, match=r"iteration_000004: No space left on device: it needs about .* MB"):
            loop.step()
    record = TrialDirectory(tmp_path).read_record()
    assert record is not None
    assert record.status == "INTERRUPTED"
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["iteration_000002"]
    with TrialLoop(trial, tmp_path, resume=True) as loop:
        while not loop.done:
            loop.step()
    assert [row["iteration"] for row in read_results(tmp_path)] == [1, 2, 3, 4, 5, 6]


def test_the_time_of_an_iteration_includes_the_preceding_evaluation_and_checkpoint(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    trial = small_trial(stop={"iteration": 4}, checkpoint={"every": 1}, evaluation={"every": 1, "episodes": 1})
    with TrialLoop(trial, tmp_path) as loop:
        while not loop.done:
            loop.step()
    rows = read_results(tmp_path)
    for before, row in itertools.pairwise(rows):
        assert row["time_this_iter_s"] > before["time/evaluation_s"] + row["time/checkpoint_s"]
    assert rows[-1]["time_total_s"] == pytest.approx(sum(row["time_this_iter_s"] for row in rows))
