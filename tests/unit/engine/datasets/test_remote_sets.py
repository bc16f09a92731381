"""Data sets in a storage are copied once into a bounded cache, or read in blocks if they are too large for it."""

from __future__ import annotations

import gc
import json
import threading
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.bridges.datasets.conversion import folder_at
from rlrun.engine.datasets import data_cache
from rlrun.engine.datasets.check import check_set
from rlrun.engine.datasets.data_cache import LIMIT_VARIABLE, limit_bytes
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.input_config import InputConfig
from rlrun.engine.datasets.input_sets import data_at, demonstrations_at, opened, within_data
from rlrun.engine.datasets.shuffle_window import ShuffleWindow
from rlrun.engine.datasets.transitions import Steps
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.kernels.cache import alone_with
from rlrun.engine.messages.errors import DataSetError, SpecError, UsageError
from tests.command import rlrun


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of data sets, in a folder of the test."""
    monkeypatch.setenv("RLRUN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "datasets"


def written(folder: Path, files: int = 1, first: int = 0, space: Box | Discrete = Discrete(3)) -> str:  # noqa: B008
    """URI of a set with one episode per file, each a step longer; observations count up from `first`."""
    with SetWriter(folder, Box(0, 1e6, (1,)), space, episodes_per_file=1) as writer:
        for number in range(files):
            steps = 8 + number
            obs = np.arange(first, first + steps + 1, dtype=np.float32)[:, None]
            flags = {"terminateds": np.arange(steps) == steps - 1, "truncateds": np.zeros(steps, np.bool_)}
            actions = np.full((steps, *space.shape), number % 3, space.dtype)
            writer.add_episode({"obs": obs, "actions": actions, "rewards": np.ones(steps), **flags})
            first += steps + 1
    return f"file://{folder}"


def read(uri: str) -> DataSet:
    """The set at a URI, after all its files have been read."""
    found = data_at(uri)
    assert found is not None
    found.rows(np.arange(found.num_rows))
    return found


def limit(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    """Limits the cache to a number of bytes."""
    monkeypatch.setenv(LIMIT_VARIABLE, str(size / 1e9))


def copies(cache: Path) -> list[str]:
    """Names of the copied files in the cache."""
    return sorted(path.name for path in cache.glob("*/*"))


def bytes_in(cache: Path) -> int:
    return sum(path.stat().st_size for path in cache.glob("*/*"))


def size_of(uri: str) -> int:
    return sum(entry.size for entry in folder_at(uri).manifest.files)


def test_a_remote_set_is_copied_once_and_read_like_a_local_one(tmp_path: Path, cache: Path) -> None:
    uri = written(tmp_path / "set", files=3)
    local = DataSet(tmp_path / "set")
    expected = local.rows(np.arange(local.num_rows))["obs"]
    read(uri)
    assert copies(cache) == ["000000.arrow", "000001.arrow", "000002.arrow"]
    for path in (tmp_path / "set").glob("*.arrow"):
        path.unlink()
    again = read(uri)
    np.testing.assert_array_equal(again.rows(np.arange(again.num_rows))["obs"], expected)
    assert (demonstrations_at(uri).columns["rewards"] == 1).sum() == local.num_steps


def test_only_the_files_of_a_remote_set_that_are_read_are_copied(tmp_path: Path, cache: Path) -> None:
    found = opened(InputConfig(path=written(tmp_path / "set", files=3)))
    found.moments()
    assert not cache.exists()
    found.rows(np.array([0]))
    assert copies(cache) == ["000000.arrow"]


def test_an_altered_or_incomplete_copy_of_a_remote_file_is_never_used(tmp_path: Path, cache: Path) -> None:
    uri = written(tmp_path / "set")
    file = tmp_path / "set" / "000000.arrow"
    whole = file.read_bytes()
    for content, message in (
        (whole[:-1] + b"?", r"file:///.*/set/000000\.arrow was altered: its sha256 differs"),
        (whole[:100], r"file:///.*/set/000000\.arrow was altered"),
        (None, r"file:///.*/set/000000\.arrow is missing or unreadable"),
    ):
        file.unlink() if content is None else file.write_bytes(content)
        with pytest.raises(DataSetError, match=message):
            read(uri)
        assert copies(cache) == []
    (next(cache.glob("*.used")).with_suffix("") / ".000000.arrow.01234567.partial").write_bytes(b"of a killed process")
    file.write_bytes(whole)
    read(uri)
    assert copies(cache) == ["000000.arrow"]


def test_altered_or_world_writable_copies_are_fetched_again(tmp_path: Path, cache: Path) -> None:
    uri = written(tmp_path / "set", files=2)
    expected = read(uri).rows(np.arange(9))["obs"]
    (copy,) = cache.glob("*/000000.arrow")
    whole, other = copy.read_bytes(), copy.with_name("000001.arrow").stat().st_ino
    for content, mode in ((whole[:-1] + bytes([whole[-1] ^ 1]), 0o600), (whole[:100], 0o600), (whole, 0o666)):
        copy.write_bytes(content)
        copy.chmod(mode)
        data_cache._compared.clear()  # as in a process that has not compared the copies yet
        np.testing.assert_array_equal(read(uri).rows(np.arange(9))["obs"], expected)
        assert (copy.read_bytes(), copy.stat().st_mode & 0o777) == (whole, 0o600)
    assert copy.with_name("000001.arrow").stat().st_ino == other
    copy.write_bytes(b"?")
    (tmp_path / "set" / "000000.arrow").unlink()
    with pytest.raises(DataSetError, match=r"file:///.*/set/000000\.arrow is missing"):
        read(uri)


def test_a_cache_that_other_users_may_write_to_is_refused(tmp_path: Path, cache: Path, wording) -> None:
    uri = written(tmp_path / "set")
    read(uri)
    cache.chmod(0o777)
    with wording.raised(UsageError, "/cache/datasets", "RLRUN_CACHE"):
        read(uri)


def test_a_reader_waits_for_a_copy_in_progress_and_uses_it(tmp_path: Path, cache: Path) -> None:
    uri = written(tmp_path / "set")
    found = data_at(uri)
    assert found is not None
    folder, rows = cache / found.digest, []
    waits = threading.Thread(target=lambda: rows.append(found.rows(np.array([3]))))
    with alone_with(folder):  # holds the lock, as another process does while it copies
        waits.start()
        folder.mkdir(exist_ok=True)
        (tmp_path / "set" / "000000.arrow").rename(folder / "000000.arrow")
    waits.join()
    assert rows[0]["obs"][0, 0] == 3


def test_the_least_recently_opened_sets_are_evicted_and_sets_in_use_are_kept(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uris = [written(tmp_path / name, first=1000 * number) for number, name in enumerate("abcd")]
    limit(monkeypatch, 2.5 * size_of(uris[0]))
    used = read(uris[0])
    folders = [cache / DataSet(tmp_path / name).digest for name in "abcd"]
    for uri in uris[1:3]:
        read(uri)
    gc.collect()  # closes b and c
    assert [folder.exists() for folder in folders] == [True, False, True, False]
    read(uris[3])
    assert [folder.exists() for folder in folders] == [True, False, False, True]
    assert used.rows(np.array([2]))["obs"][0, 0] == 2


def test_rows_of_a_set_larger_than_the_cache_are_drawn_in_blocks_that_fit_into_the_cache(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = written(tmp_path / "set", files=7)
    limit(monkeypatch, bound := size_of(uri) * 0.55)
    found = opened(InputConfig(path=uri))
    assert found.blocks_at_once == 3
    window, rng, drawn = ShuffleWindow(found, Steps), np.random.default_rng(0), set()
    for _ in range(15):
        drawn |= set(window.draw(40, rng)["obs"].ravel().tolist())
        assert bytes_in(cache) <= bound
    steps = found.rows_of_steps(np.arange(found.num_steps))
    assert drawn == set(steps.tolist())


def test_a_shuffle_window_draws_all_items_equally_often_despite_unequal_blocks(tmp_path: Path) -> None:
    written(tmp_path / "set", files=6)
    data = DataSet(tmp_path / "set")
    window, rng, drawn = ShuffleWindow(data, Steps), np.random.default_rng(0), np.zeros(data.num_rows)
    window.load_state({"size": 3, "drawn": 0, "blocks": (), "next": ()})
    for _ in range(500):
        drawn += np.bincount(window.draw(11, rng)["obs"].ravel().astype(int), minlength=data.num_rows)
    expected = 500 * 11 / data.num_steps
    steps = drawn[data.rows_of_steps(np.arange(data.num_steps))]
    assert steps.sum() == 500 * 11
    assert abs(steps - expected).max() < 4.5 * expected**0.5


def test_copies_left_by_earlier_windows_are_evicted(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = written(tmp_path / "set", files=7)
    limit(monkeypatch, bound := size_of(uri) * 0.55)
    for seed in range(3):
        window, rng = ShuffleWindow(opened(InputConfig(path=uri)), Steps), np.random.default_rng(seed)
        window.draw(1, rng)
        assert bytes_in(cache) <= bound
    assert len(copies(cache)) == 3


def test_a_pass_over_a_set_larger_than_the_cache_keeps_no_copies(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = Box(-np.inf, np.inf, (1,))
    uri = written(tmp_path / "set", files=5, space=space)
    limit(monkeypatch, 1)
    bounded = within_data(space, [opened(InputConfig(path=uri))])
    assert isinstance(bounded, Box)
    assert (bounded.low.tolist(), bounded.high.tolist()) == ([0], [2])
    assert copies(cache) == []


def test_dataset_commands_accept_remote_sets(tmp_path: Path, wording) -> None:
    uri = written(tmp_path / "set", files=3)
    done = rlrun("dataset", "info", uri, "--json")
    assert (json.loads(done.stdout)["path"], json.loads(done.stdout)["episodes"]) == (uri, 3)
    assert rlrun("dataset", "sample", uri, "-o", tmp_path / "some", "--episodes", 2).exit_code == 0
    assert rlrun("dataset", "merge", uri, tmp_path / "some", "-o", tmp_path / "both").exit_code == 0
    assert rlrun("dataset", "convert", f"file://{tmp_path}/both", tmp_path / "both.csv").exit_code == 0
    assert [DataSet(tmp_path / name).num_episodes for name in ("some", "both")] == [2, 5]
    done = rlrun("dataset", "info", f"{uri}z")
    assert done.exit_code == 2
    assert done.stderr == wording(uri, "manifest.json")


def test_checking_a_remote_set_reports_changes_in_storage_even_if_copies_are_cached(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    uri = written(tmp_path / "set", files=4)
    assert not [finding for finding in check_set(folder_at(uri)) if finding.is_wrong]
    assert len(copies(cache)) == 4
    whole = (tmp_path / "set" / "000001.arrow").read_bytes()
    (tmp_path / "set" / "000001.arrow").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    (tmp_path / "set" / "000002.arrow").unlink()
    (tmp_path / "set" / "notes.txt").write_text("mine")
    limit(monkeypatch, size_of(uri) / 2)
    found = check_set(folder_at(uri))
    assert [(finding.place, finding.text.partition(": ")[0]) for finding in found if finding.is_wrong] == [
        wording("notes.txt"),
        ("000001.arrow", f"{uri}/000001.arrow was altered"),
        wording(uri),
    ]
    assert bytes_in(cache) <= size_of(uri) / 2
    done = rlrun("dataset", "check", uri)
    assert (done.exit_code, wording("notes.txt") in done.stdout.splitlines()) == (5, True)


def test_remote_locations_without_a_data_set_are_refused(tmp_path: Path, wording) -> None:
    with wording.raised(UsageError):
        opened(InputConfig(path=f"file://{tmp_path}/nothing"))
    with pytest.raises(UsageError, match="storage sea://bucket/set: "):
        opened(InputConfig(path="sea://bucket/set"))
    with wording.raised(SpecError):
        InputConfig(path="s3://me:secret@bucket/set")


@pytest.mark.parametrize("text", ["much", "0", "-1", "nan", "inf"])
def test_a_cache_limit_that_is_not_a_positive_number_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, text)
    with wording.raised(UsageError, text, "RLRUN_CACHE_GB"):
        limit_bytes()
