"""Who may change a run's copy in a storage: claims, renewals, takeovers, and what a former owner can still do."""

import json
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from pyarrow.fs import FileSelector, FileSystem
from typing_extensions import override

from rlrun.engine.checkpoint.file_systems import file_system, write_chunks
from rlrun.engine.messages.errors import RunDamaged, RunTakenOver, UsageError
from rlrun.experiments.runs import copy_owner
from rlrun.experiments.runs.copy_owner import OWNERS, CopyOwner, OwnerRecord, owner_of
from rlrun.experiments.runs.run_directory import RUN_FILE
from rlrun.experiments.runs.run_upload import RunUpload, copy_location, fetch_run, is_taken

FOREIGN = OwnerRecord("far-away", 4711, "another boot", "2026-01-02T03:04:05+00:00", 1)
NEVER_S = 1e9


@pytest.fixture(autouse=True)
def constants(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Changes the module's times: by default an owner renews its record only when asked, and never counts as gone."""

    def change(**seconds: float) -> None:
        for name, value in seconds.items():
            monkeypatch.setattr(copy_owner, name, value)

    change(RENEW_EVERY_S=NEVER_S, POLL_EVERY_S=0.01, TRUST_S=0.0, PATIENCE_S=60.0, GONE_AFTER_S=NEVER_S)
    return change


@pytest.fixture(params=["a path", "object store"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    storage = str(tmp_path / "storage") if request.param == "a path" else f"fsspec+memory:///{secrets.token_hex(4)}"
    return copy_location(storage, "steady")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A storage in which files appear whole to readers, unlike in the object store of the tests."""
    return copy_location(str(tmp_path / "storage"), "steady")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / "runs/steady"
    directory.mkdir(parents=True)
    (directory / RUN_FILE).write_text("{}")
    return directory


def write_record(uri: str, record: OwnerRecord) -> None:
    """Writes a record, like an owner on another machine."""
    files, root = file_system(uri)
    name = f"{record.generation:06d}-00000000000000aa.json"
    write_chunks(files, f"{root}/{OWNERS}/{name}", [json.dumps(asdict(record)).encode()])


def generations(uri: str) -> list[int]:
    system, root = FileSystem.from_uri(uri)
    found = system.get_file_info(FileSelector(f"{root}/{OWNERS}", allow_not_found=True))
    return sorted(int(info.base_name.partition("-")[0]) for info in found)


def test_claiming_a_copy_whose_owner_renews_its_record_is_refused(
    path: str, run: Path, tmp_path: Path, constants: Callable[..., None], wording
) -> None:
    constants(RENEW_EVERY_S=0.01)
    with CopyOwner(path, None):
        owner = owner_of(path)
        assert owner is not None
        names = {"host": owner.record.host, "pid": owner.record.pid, "since": owner.record.started}
        with wording.raised(UsageError, *names.values(), uri=path, **names), CopyOwner(path, run):
            pass
        RunUpload(run, path).synchronize()
        with pytest.raises(UsageError, match="already running in"):
            fetch_run(path, tmp_path / "elsewhere")
    assert owner_of(path) is None
    assert not (run / copy_owner.SEEN_FILE).exists()
    assert not (tmp_path / "elsewhere/steady").exists()


def test_a_copy_whose_owner_stays_silent_is_taken_over_after_a_wait(
    uri: str, run: Path, constants: Callable[..., None], caplog: pytest.LogCaptureFixture, wording
) -> None:
    constants(GONE_AFTER_S=0.05)
    write_record(uri, replace(FOREIGN, generation=3, renewed=17))
    with CopyOwner(uri, run) as owner:
        owner.confirm()
        assert generations(uri) == [4]
    assert caplog.messages == wording("far-away", 4711, FOREIGN.started, uri=uri)


def test_a_copy_whose_owner_was_killed_on_this_machine_is_taken_over_at_once(uri: str, run: Path) -> None:
    with CopyOwner(uri, None):
        here = owner_of(uri)
        assert here is not None
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    write_record(uri, replace(here.record, pid=dead.pid, generation=2))
    assert owner_of(uri) is None
    with CopyOwner(uri, run):
        assert generations(uri) == [3]


def test_a_copy_that_its_owner_has_released_is_taken_over_at_once(
    uri: str, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for generation in (1, 2, 3):
        with CopyOwner(uri, run) as owner, RunUpload(run, uri, owner.confirm):
            assert generations(uri) == [generation]
    assert caplog.messages == []


def test_the_name_of_a_copy_that_was_claimed_but_stayed_empty_is_free_again(uri: str, run: Path) -> None:
    with CopyOwner(uri, run):
        assert is_taken(uri)
    assert not is_taken(uri)


def test_an_owner_whose_copy_was_taken_over_while_it_was_paused_can_no_longer_write(
    uri: str, run: Path, constants: Callable[..., None], wording
) -> None:
    constants(RENEW_EVERY_S=NEVER_S, TRUST_S=NEVER_S, GONE_AFTER_S=0.05)  # the first owner stops renewing
    losses: list[RunTakenOver] = []
    with CopyOwner(uri, run, losses.append) as first:
        upload = RunUpload(run, uri, first.confirm)
        upload.synchronize()
        with CopyOwner(uri, None) as second:
            new = owner_of(uri)
            assert new is not None
            constants(TRUST_S=0.0)  # as if time had passed before the first owner continues
            (run / RUN_FILE).write_text('{"of": "the first owner"}')
            with wording.raised(RunTakenOver, new.record.host, new.record.pid, uri=uri, new=new.record, run=run):
                upload.synchronize()
            with pytest.raises(RunTakenOver):
                first.confirm_if_reachable()
            second.confirm()
            system, root = FileSystem.from_uri(uri)
            assert system.open_input_stream(f"{root}/{RUN_FILE}").read() == b"{}"
    assert len(losses) == 1
    assert generations(uri) == [1, 2]  # the first owner has renewed its record, without effect


def test_only_one_of_several_simultaneous_claims_of_a_copy_succeeds(path: str, constants: Callable[..., None]) -> None:
    constants(RENEW_EVERY_S=0.01)
    claimants = 6
    barrier, ended = threading.Barrier(claimants), threading.Barrier(claimants)

    def claim(number: int) -> str:
        barrier.wait()
        try:
            with CopyOwner(path, None) as owner:
                owner.confirm()
                ended.wait()
                return "owner"
        except UsageError:
            ended.wait()
            return "refused"
        except BaseException:
            ended.abort()
            raise

    with ThreadPoolExecutor(claimants) as threads:
        found = sorted(threads.map(claim, range(claimants)))
    assert found == ["owner", *["refused"] * (claimants - 1)]


def test_a_claim_that_meets_another_claim_of_the_same_generation_withdraws(uri: str, run: Path, wording) -> None:
    class Slow(CopyOwner):
        """Another process claims the copy while this one writes its record, and then keeps renewing its own."""

        looks = 0

        @override
        def _write(self, record: OwnerRecord) -> None:
            write_record(uri, FOREIGN)
            super()._write(record)

        @override
        def _newest(self) -> dict[str, bytes]:
            if generations(uri):
                self.looks += 1
                write_record(uri, replace(FOREIGN, renewed=self.looks))
            return super()._newest()

    with wording.raised(UsageError, "far-away", 4711, FOREIGN.started, uri=uri), Slow(uri, run):
        pass
    assert generations(uri) == [1]


def test_a_directory_that_is_older_than_its_copy_cannot_claim_the_copy(
    uri: str, run: Path, tmp_path: Path, wording
) -> None:
    with CopyOwner(uri, run) as owner, RunUpload(run, uri, owner.confirm):
        pass
    fetched = fetch_run(uri, tmp_path / "elsewhere")
    for directory in (fetched, fetched):
        with CopyOwner(uri, directory) as owner:
            last = owner_of(uri)
    assert last is not None
    names = {"run": run, "uri": uri, "host": last.record.host, "since": last.record.started}
    with wording.raised(UsageError, *names.values(), **names), CopyOwner(uri, run):
        pass


def test_a_directory_whose_process_was_killed_during_a_claim_may_claim_its_copy_again(uri: str, run: Path) -> None:
    class Killed(CopyOwner):
        @override
        def _write(self, record: OwnerRecord) -> None:
            if self.after:
                super()._write(record)
            raise KeyboardInterrupt

        after = False

    with CopyOwner(uri, run) as owner, RunUpload(run, uri, owner.confirm):
        pass
    for after in (False, True):
        killed = Killed(uri, run)
        killed.after = after
        with pytest.raises(KeyboardInterrupt):
            killed.__enter__()
        if after:  # the record names this process, which is alive, so it must be released
            (path,) = [name for name in copy_owner._names(killed._files, killed._root) if name == killed._name]
            write = replace(killed._record, generation=2, released=True)
            write_chunks(killed._files, killed._path(path), [json.dumps(asdict(write)).encode()])
        with CopyOwner(uri, run):
            pass


def test_training_continues_while_the_storage_is_unreachable_but_the_copy_is_not_written(
    run: Path, tmp_path: Path
) -> None:
    storage = tmp_path / "storage"
    with CopyOwner(str(storage / "steady"), run) as owner:
        storage.rename(tmp_path / "away")
        storage.write_text("in the way")
        owner.confirm_if_reachable()
        with pytest.raises(OSError, match="confirm"):
            owner.confirm()
        storage.unlink()
        (tmp_path / "away").rename(storage)
        owner.confirm()


def test_an_unwritable_storage_and_a_damaged_owner_record_are_refused(run: Path, tmp_path: Path, wording) -> None:
    (tmp_path / "file").touch()
    with wording.raised(UsageError, "file/steady", tmp_path=tmp_path), CopyOwner(str(tmp_path / "file/steady"), run):
        pass
    records = tmp_path / "storage/steady" / OWNERS
    records.mkdir(parents=True)
    (records / "000001-00000000000000aa.json").write_text("{}")
    with pytest.raises(RunDamaged, match=OWNERS), CopyOwner(str(tmp_path / "storage/steady"), run):
        pass
