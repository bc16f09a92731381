"""The lineage survives kills, and keeps a checkpoint as long as a member may copy it."""

import errno
import os
import resource
from pathlib import Path

import pytest

from rlrun.engine.messages.errors import DiskFull
from rlrun.experiments.search.decisions import DECISIONS_FILE, StopDecision, append_stop, read_stops
from rlrun.experiments.search.lineage import (
    LINEAGE_FILE,
    Generation,
    Lineage,
    MemberRecord,
    newest_records,
    read_generations,
)


def generation(number: int) -> Generation:
    kept = MemberRecord("000-a", 3.5, 100 * number, "kept", None, None, {"lr": 0.001})
    copy = MemberRecord("001-b", None, 90 * number, "resampled", "000-a", number, {"lr": 0.002})
    return Generation(7, number, (kept, copy))


def test_generations_are_read_back_unchanged_and_a_torn_line_is_skipped(tmp_path: Path) -> None:
    assert read_generations(tmp_path) == []
    lineage = Lineage(tmp_path)
    lineage.append(generation(1))
    with (tmp_path / LINEAGE_FILE).open("ab") as file:
        file.write(b'{"population": 7, "generation": 2, "mem')
    assert read_generations(tmp_path) == [generation(1)]
    lineage.append(generation(2))
    assert read_generations(tmp_path) == [generation(1), generation(2)]
    newest = newest_records(read_generations(tmp_path))
    assert newest["001-b"] == (2, generation(2).members[1])


def test_a_kept_checkpoint_survives_the_deletion_of_its_source(tmp_path: Path) -> None:
    checkpoint = tmp_path / "000-a/checkpoints/iteration_000003"
    (checkpoint / "policies").mkdir(parents=True)
    (checkpoint / "policies/default.safetensors").write_bytes(b"weights")
    lineage = Lineage(tmp_path)
    lineage.keep_checkpoint("000-a", 1, checkpoint)
    kept = lineage.checkpoint("000-a", 1)
    assert os.path.samefile(kept / "policies/default.safetensors", checkpoint / "policies/default.safetensors")
    (checkpoint / "policies/default.safetensors").unlink()
    assert (kept / "policies/default.safetensors").read_bytes() == b"weights"
    lineage.keep_checkpoint("000-a", 1, checkpoint)  # coming to this generation again changes nothing
    assert (kept / "policies/default.safetensors").read_bytes() == b"weights"


def test_a_checkpoint_that_cannot_be_linked_is_copied_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(source: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_link)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint/weights").write_bytes(bytes(1000))
    lineage = Lineage(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        with pytest.raises(DiskFull, match=r"generations/000-a/000001: File too large: it needs about 0\.001 MB"):
            lineage.keep_checkpoint("000-a", 1, tmp_path / "checkpoint")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not lineage.checkpoint("000-a", 1).exists()
    lineage.keep_checkpoint("000-a", 1, tmp_path / "checkpoint")
    assert (lineage.checkpoint("000-a", 1) / "weights").read_bytes() == bytes(1000)
    assert [path.name for path in (tmp_path / "generations/000-a").iterdir()] == ["000001"]


def test_checkpoints_that_are_no_longer_needed_are_deleted(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    lineage = Lineage(tmp_path)
    for trial, number in (("000-a", 1), ("000-a", 2), ("001-b", 1)):
        lineage.keep_checkpoint(trial, number, checkpoint)
    lineage.forget_checkpoints({("000-a", 2)})
    assert [path.relative_to(tmp_path) for path in (tmp_path / "generations").glob("*/*")] == [
        Path("generations/000-a/000002")
    ]
    lineage.close()
    assert not (tmp_path / "generations").exists()


def test_the_last_stop_decision_of_a_trial_is_used_and_a_torn_line_is_ignored(tmp_path: Path) -> None:
    assert read_stops(tmp_path) == {}
    first, second = StopDecision("000-a", 10.0, 1.5, "asha: first"), StopDecision("000-a", 20.0, None, "asha: second")
    append_stop(tmp_path, first)
    append_stop(tmp_path, second)
    with (tmp_path / DECISIONS_FILE).open("ab") as file:
        file.write(b'{"trial": "001')
    assert read_stops(tmp_path) == {"000-a": second}
