"""Copies of runs in storages: what is in step, what a kill leaves, what comes back."""

import json
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyarrow.fs import FileSelector, FileSystem

from rlrun.engine.checkpoint.format import Content, verify_checkpoint
from rlrun.engine.checkpoint.store import CheckpointStore
from rlrun.engine.messages.errors import RlrunError, UsageError
from rlrun.experiments.runs import run_upload
from rlrun.experiments.runs.run_upload import RunUpload, copy_location, fetch_run, is_taken
from rlrun.experiments.trial.results import read_results
from rlrun.experiments.trial.trial_directory import TrialDirectory, TrialRecord
from tests.files import files, is_hidden

TRIAL = "000-seed=0"


def step(run: Path, trial: str, iteration: int, keep: int = 2) -> None:
    """Does what an iteration of a trial with a checkpoint leaves on the disk."""
    directory = TrialDirectory(run / trial)
    directory.write_record(TrialRecord(trial, "RUNNING", 0, iteration=iteration))
    with (run / trial / "result.json").open("a") as file:
        file.write(json.dumps({"iteration": iteration}) + "\n")
    content = Content({"iteration": iteration}, {"seed": 0}, {}, {"iteration": iteration})
    store = CheckpointStore(directory.checkpoints, keep)
    store.commit(store.stage(iteration, content, {"iteration": iteration}))


def new_run(directory: Path) -> Path:
    run = directory / "steady"
    run.mkdir(parents=True)
    (run / "run.json").write_text('{"trials": ["000-seed=0"]}')
    (run / ".lock").write_text("4711")
    return run


def stored(uri: str) -> dict[str, bytes]:
    system, root = FileSystem.from_uri(uri)
    found = system.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
    names = [info.path.removeprefix(f"{root}/") for info in found if info.is_file]
    return {name: system.open_input_stream(f"{root}/{name}").read() for name in names if not is_hidden(name)}


@pytest.fixture(params=["a path", "file", "object store"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {
        "a path": str(tmp_path / "storage"),
        "file": f"file://{tmp_path}/storage",
        # Objects are written whole and cannot be renamed, as in S3.
        "object store": f"fsspec+memory:///{secrets.token_hex(4)}",
    }[request.param]


def test_the_copy_of_a_run_is_kept_up_to_date(tmp_path: Path, storage: str) -> None:
    run = new_run(tmp_path)
    uri = copy_location(storage, run.name)
    assert not is_taken(uri)
    with RunUpload(run, uri) as copy:
        assert stored(uri) == files(run)
        for iteration in range(1, 5):
            step(run, TRIAL, iteration)
            copy.synchronize()
            assert stored(uri) == files(run)
        step(run, "001-seed=1", 1)
        (run / TRIAL / "error.txt").write_text("what went wrong")
        copy.synchronize()
        (run / TRIAL / "error.txt").unlink()
        step(run, TRIAL, 5)
    assert stored(uri) == files(run)
    assert {name.split("/")[2] for name in stored(uri) if name.startswith(f"{TRIAL}/checkpoints/")} == {
        "iteration_000004",
        "iteration_000005",
    }
    assert is_taken(uri)


def test_a_later_process_brings_an_existing_copy_up_to_date(tmp_path: Path, storage: str) -> None:
    run = new_run(tmp_path)
    uri = copy_location(storage, run.name)
    for iteration in (1, 2, 3):
        step(run, TRIAL, iteration)
    with RunUpload(run, uri):
        pass
    for iteration in (4, 5):
        step(run, TRIAL, iteration)
    moved = shutil.move(run, tmp_path / "moved")
    with RunUpload(moved, uri):
        assert stored(uri) == files(moved)


class Mortal(RunUpload):
    """Dies after so many files."""

    left = 0

    def _put(self, name: str, pieces: Iterator[bytes] | Sequence[bytes]) -> None:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        super()._put(name, pieces)


@pytest.mark.parametrize("is_object_store", [True, False])
def test_a_kill_at_any_moment_leaves_a_copy_that_can_be_resumed(tmp_path: Path, is_object_store: bool) -> None:
    run = new_run(tmp_path)
    for trial in (TRIAL, "001-seed=1"):
        for iteration in (1, 2, 3):
            step(run, trial, iteration)
    before = shutil.copytree(run, tmp_path / "before")
    step(run, TRIAL, 4)
    (run / "run.json").write_text('{"trials": ["000-seed=0", "001-seed=1", "002-seed=2"]}')
    step(run, "002-seed=2", 1)
    whole = False
    for count in range(100):
        storage = f"fsspec+memory:///{secrets.token_hex(4)}" if is_object_store else str(tmp_path / f"s{count}")
        uri = copy_location(storage, run.name)
        with RunUpload(before, uri):
            pass
        killed = Mortal(run, uri)
        killed.left = count
        try:
            killed.synchronize()
            whole = True
        except KeyboardInterrupt:
            pass
        back = fetch_run(uri, tmp_path / f"back-{count}")
        for trial in json.loads((back / "run.json").read_text())["trials"]:
            record = TrialDirectory(back / trial).read_record()
            assert record is not None
            kept = CheckpointStore(back / trial / "checkpoints").paths()
            assert kept
            for path in kept:
                verify_checkpoint(path)
                assert len(read_results(back / trial)) >= int(path.name[-6:])
            assert int(kept[-1].name[-6:]) >= record.iteration
        if whole:
            break
        with RunUpload(run, uri):
            assert stored(uri) == files(run)
    assert 10 < count < 60
    assert files(back) == files(run)


def test_failed_uploads_are_retried_and_raise_only_if_they_still_fail_when_the_run_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, wording
) -> None:
    monkeypatch.setattr(run_upload, "COPY_EVERY_S", 0.01)
    run = new_run(tmp_path)
    uri = str(tmp_path / "storage/steady")
    blocked = tmp_path / "storage/steady/000-seed=0"
    with RunUpload(run, uri):
        blocked.write_text("a file where a folder is wanted")
        step(run, TRIAL, 1)
        while not caplog.messages:
            pass
        blocked.unlink()
    assert stored(uri) == files(run)
    assert caplog.messages[0].startswith(f"storage {uri}: ")

    copy = RunUpload(run, uri).__enter__()
    shutil.rmtree(tmp_path / "storage")
    (tmp_path / "storage").write_text(
        "already exists, contains files and is not a checkpoint, so it is not overwritten"
    )
    step(run, TRIAL, 2)
    with wording.raised(RlrunError, run, uri):
        copy.__exit__(None, None, None)


@pytest.mark.parametrize("uri", ["weird://bucket/runs", "fsspec+no-such-thing://x"])
def test_a_storage_of_an_unknown_kind_is_refused(tmp_path: Path, uri: str) -> None:
    with pytest.raises(UsageError, match=f"storage .*{uri[:4]}"):
        RunUpload(new_run(tmp_path), copy_location(uri, "steady"))


def test_an_unwritable_storage_is_refused_before_anything_is_run(tmp_path: Path, wording) -> None:
    (tmp_path / "file").touch()
    with (
        wording.raised(UsageError, "/file/steady"),
        RunUpload(new_run(tmp_path), str(tmp_path / "file/steady")),
    ):
        pass


def test_fetching_a_run_over_an_existing_one_is_refused(tmp_path: Path, wording) -> None:
    run = new_run(tmp_path)
    uri = copy_location(str(tmp_path / "storage"), run.name)
    with RunUpload(run, uri):
        pass
    with wording.raised(UsageError, run):
        fetch_run(uri, tmp_path)
    with wording.raised(UsageError, "storage/other", "run.json"):
        fetch_run(str(tmp_path / "storage/other"), tmp_path)


@pytest.mark.parametrize(
    ("storage", "uri"),
    [
        ("s3://bucket", "s3://bucket/run"),
        ("s3://bucket/runs/", "s3://bucket/runs/run"),
        ("s3://bucket/runs?endpoint_override=minio:9000&scheme=http", "s3://bucket/runs/run?endpoint_override=minio:9000&scheme=http"),
        ("/mnt/runs", "/mnt/runs/run"),
        ("runs", f"{Path.cwd()}/runs/run"),
    ],
)  # fmt: skip
def test_the_copy_of_a_run_has_the_name_of_that_run(storage: str, uri: str) -> None:
    assert copy_location(storage, "run") == uri
