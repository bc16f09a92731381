"""Data sets contain what was written, survive kills and resumes, and are read without loading them whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple

from rlrun.engine.checkpoint.state_codec import decode, encode
from rlrun.engine.data.tree import map_tree
from rlrun.engine.datasets.arrow_file import file_pieces, mapped_columns
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.layout import LOGP_FORM, ColumnForm
from rlrun.engine.datasets.manifest import read_manifest
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.functional.moments import Moments
from rlrun.engine.messages.errors import DataSetError, UsageError

OBSERVATION = Dict(place=Box(-np.inf, np.inf, (3,)), camera=Box(0, 255, (4, 4, 1), np.uint8), keys=MultiBinary(2))
ACTION = Tuple([Discrete(3, start=1), Box(-1, 1, (2,), np.float64)])


def writer(folder: Path, **limits: int) -> SetWriter:
    return SetWriter(folder, OBSERVATION, ACTION, further={"logp": LOGP_FORM}, **limits)


def running_episode(rng: np.random.Generator, steps: int) -> dict[str, Any]:
    """Steps of a running episode."""
    return {
        "obs": {
            "place": rng.normal(size=(steps + 1, 3)).astype(np.float32),
            "camera": rng.integers(0, 256, (steps + 1, 4, 4, 1), np.uint8),
            "keys": rng.integers(0, 2, (steps + 1, 2), np.int8),
        },
        "actions": (rng.integers(1, 4, steps), rng.uniform(-1, 1, (steps, 2))),
        "rewards": rng.normal(size=steps),
        "terminateds": np.zeros(steps, np.bool_),
        "truncateds": np.zeros(steps, np.bool_),
        "logp": rng.normal(size=steps).astype(np.float32),
    }


def episode(rng: np.random.Generator, steps: int) -> dict[str, Any]:
    own = running_episode(rng, steps)
    own["terminateds"][-1] = True
    return own


def assert_same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


def test_a_data_set_contains_the_episodes_that_were_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    episodes = [episode(rng, steps) for steps in (3, 1, 5, 2)]
    with writer(tmp_path / "set", episodes_per_file=2) as written:
        for number, own in enumerate(episodes):
            written.add_episode(own, seed=100 + number, agent=("a", "b")[number % 2])
    found = DataSet(tmp_path / "set")
    assert (found.observation_space, found.action_space) == (OBSERVATION, ACTION)
    assert (found.num_episodes, found.num_steps, found.num_rows, found.agents) == (4, 11, 15, ("a", "b"))
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == [
        "000000.arrow", "000001.arrow", "manifest.json"
    ]  # fmt: skip
    starts, lengths = found.episodes
    assert (starts.tolist(), lengths.tolist()) == ([0, 4, 6, 12], [3, 1, 5, 2])
    for number, own in enumerate(episodes):
        rows = found.rows(np.arange(starts[number], starts[number] + lengths[number] + 1))
        for part, leaf in own["obs"].items():
            assert_same(rows["obs"][part], leaf)
        for leaf, expected in zip(rows["actions"], own["actions"], strict=True):
            assert_same(leaf[:-1], expected)
            assert not leaf[-1].any()
        for name in ("rewards", "terminateds", "truncateds", "logp"):
            assert_same(rows[name], np.append(own[name], np.zeros(1, own[name].dtype)))
        assert rows["valid"].tolist() == [True] * lengths[number] + [False]
        assert set(rows["episode"]) == {number}
        assert set(rows["seed"]) == {100 + number}
        assert set(rows["agent"]) == {number % 2}
        assert set(rows["weights_version"]) == {-1}


def test_parallel_slots_write_whole_episodes_in_the_order_in_which_they_end(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    first, second = running_episode(rng, 4), running_episode(rng, 3)
    # Slot "0": two steps, the second of which ends the episode; the final observation; a step of the next episode.
    first["terminateds"][1] = True
    first["valid"] = np.array([True, True, False, True])
    with writer(tmp_path / "set") as written:
        written.add("1", second)
        written.add("0", first)
        second["truncateds"][-1] = True
        written.add("1", second)  # its final observation is the one after the last row
        begins = running_episode(rng, 1)
        begins["valid"] = np.array([False])
        written.add("1", begins)
    found = DataSet(tmp_path / "set")
    assert found.episodes.lengths.tolist() == [2, 6, 1]
    rows = found.rows(np.arange(found.num_rows))
    assert rows["terminateds"].nonzero()[0].tolist() == [1]
    assert rows["truncateds"].nonzero()[0].tolist() == [8]
    assert_same(rows["obs"]["place"][:3], first["obs"]["place"][:3])
    assert_same(rows["obs"]["place"][3:6], second["obs"]["place"][:3])
    assert_same(rows["obs"]["place"][9], begins["obs"]["place"][0])  # row 0 is not a step but a final observation
    assert_same(rows["obs"]["place"][10:], first["obs"]["place"][3:])  # cut, with the observation after its last step


def test_an_episode_that_a_resume_could_not_continue_is_stored_as_cut(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    lost, own = running_episode(rng, 3), running_episode(rng, 2)
    with writer(tmp_path / "set") as written:
        written.add("0", lost)
        written.add("0", own, begins=True)
    found = DataSet(tmp_path / "set")
    assert found.episodes.lengths.tolist() == [3, 2]
    assert_same(found.rows(np.array([3]))["obs"]["place"][0], lost["obs"]["place"][3])


def test_an_endless_episode_is_cut_when_its_file_reaches_the_maximum_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    with writer(tmp_path / "set", rows_per_file=10) as written:
        for _ in range(7):
            written.add("0", running_episode(rng, 5))
    found = DataSet(tmp_path / "set")
    assert found.episodes.lengths.tolist() == [10, 10, 10, 5]
    assert [entry.rows for entry in found.manifest.files] == [11, 11, 11, 6]


def test_a_resume_discards_files_newer_than_its_state_and_rewrites_them_byte_for_byte(tmp_path: Path) -> None:
    def play(written: SetWriter, begin: int, end: int) -> None:
        for step in range(begin, end):
            for slot in range(3):
                rng = np.random.default_rng((step, slot))
                own = running_episode(rng, 4)
                own["valid"] = np.ones(4, np.bool_)
                if (step + slot) % 3 == 0:
                    own["terminateds"][1], own["valid"][2] = True, False
                written.add(str(slot), own)

    folder, limits = tmp_path / "set", {"episodes_per_file": 3}
    written = writer(folder, **limits)
    play(written, 0, 7)
    arrays: list[Any] = []
    saved = json.loads(json.dumps(encode(written.state(), arrays)))
    play(written, 7, 20)
    written.close()
    bytes_then = {path.name: path.read_bytes() for path in folder.iterdir()}
    resumed = writer(folder, **limits)
    resumed.load_state(decode(saved, [array.copy() for array in arrays]))
    assert len(DataSet(folder).manifest.files) == len(saved["files"]) < len(bytes_then) - 1
    play(resumed, 7, 20)
    resumed.close()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == bytes_then


def test_the_error_for_resuming_on_an_altered_data_set_names_the_file(tmp_path: Path, wording) -> None:
    rng = np.random.default_rng(4)
    written = writer(tmp_path / "set", episodes_per_file=1)
    written.add_episode(episode(rng, 3))
    state = written.state()
    other = writer(tmp_path / "other", episodes_per_file=1)
    other.add_episode(episode(rng, 3))
    (tmp_path / "set" / "manifest.json").write_bytes((tmp_path / "other" / "manifest.json").read_bytes())
    with wording.raised(DataSetError, "set/000000"):
        writer(tmp_path / "set").load_state(state)


def test_a_data_set_is_never_written_to_a_folder_that_already_has_files(tmp_path: Path, wording) -> None:
    rng = np.random.default_rng(5)
    with writer(tmp_path / "set") as written:
        written.add_episode(episode(rng, 3))
    with wording.raised(UsageError):
        writer(tmp_path / "set", episodes_per_file=1).add_episode(episode(rng, 3))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with wording.raised(UsageError):
        writer(tmp_path / "mine").close()


KILLED = """
import numpy as np, pathlib, sys
from gymnasium.spaces import Box, Discrete
from rlrun.engine.datasets.writer import SetWriter
writer = SetWriter(pathlib.Path(sys.argv[1]), Box(-1e9, 1e9, (1,)), Discrete(2), episodes_per_file=5)
for number in range(10**9):
    steps = 1 + number % 7
    writer.add_episode({
        "obs": np.full((steps + 1, 1), number, np.float32), "actions": np.ones(steps, np.int64),
        "rewards": np.arange(steps) * 1.0, "terminateds": np.arange(1, steps + 1) == steps,
        "truncateds": np.zeros(steps, bool)})
    if number == 23:
        print("written", flush=True)
"""


def test_a_kill_loses_at_most_the_file_being_written(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "set")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        os.kill(process.pid, signal.SIGKILL)
    found = DataSet(tmp_path / "set")
    assert found.num_episodes >= 20
    assert found.num_episodes % 5 == 0
    assert found.episodes.lengths.tolist() == [1 + number % 7 for number in range(found.num_episodes)]
    rows = found.rows(np.arange(found.num_rows))
    assert_same(rows["obs"][:, 0], rows["episode"].astype(np.float32))


def test_columns_are_read_only_views_of_the_memory_mapped_file(tmp_path: Path) -> None:
    with writer(tmp_path / "set") as written:
        written.add_episode(episode(np.random.default_rng(6), 50))
    for name, column in DataSet(tmp_path / "set").file(0).items():
        assert not column.flags.writeable, name
        assert not column.flags.owndata, name


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell which pages are in memory")
def test_opening_a_file_does_not_read_it_from_disk(tmp_path: Path) -> None:
    forms = {"rewards": ColumnForm(np.dtype(np.float64))}
    path, rows = tmp_path / "000000.arrow", 2_000_000
    path.write_bytes(b"".join(file_pieces({"rewards": np.zeros(rows)}, forms)))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

        def is_in_memory(place: int) -> bool:  # this query makes the system read nearby data
            try:
                return os.preadv(file.fileno(), [bytearray(1)], place, os.RWF_NOWAIT) == 1
            except BlockingIOError:
                return False
            except OSError:  # this file system cannot tell
                return True

        if is_in_memory(rows * 6):
            pytest.skip("this file system keeps files in memory")
        columns = mapped_columns(path, forms, rows)
        os.pread(file.fileno(), 1, rows * 4)  # waits for the reads that opening the file triggered
        assert not is_in_memory(rows * 3)
    assert columns["rewards"][rows // 2] == 0


def test_episode_lengths_are_stored_in_the_manifest_and_invalid_lengths_are_refused(tmp_path: Path, wording) -> None:
    rng = np.random.default_rng(6)
    with writer(tmp_path / "set", episodes_per_file=2) as written:
        for steps in (3, 1, 5):
            written.add_episode(episode(rng, steps))
    path = tmp_path / "set" / "manifest.json"
    raw = json.loads(path.read_text())
    assert [entry["lengths"] for entry in raw["files"]] == [[3, 1], [5]]
    for wrong in ([3, 2], [4], [3, 1, 0], [5, -1], [2.0, 2.0]):
        raw["files"][0]["lengths"] = wrong
        path.write_text(json.dumps(raw))
        with wording.raised(DataSetError):
            DataSet(tmp_path / "set")


def test_rows_are_gathered_from_several_files_in_the_requested_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    with writer(tmp_path / "set", episodes_per_file=2) as written:
        for steps in rng.integers(1, 9, 13).tolist():
            written.add_episode(episode(rng, steps))
    found = DataSet(tmp_path / "set")
    everything = found.rows(np.arange(found.num_rows))
    indices = rng.integers(0, found.num_rows, 100)
    some = found.rows(indices, ("obs", "rewards"))
    assert sorted(some) == ["obs", "rewards"]
    assert_same(some["rewards"], everything["rewards"][indices])
    assert_same(some["obs"]["camera"], everything["obs"]["camera"][indices])
    steps = found.rows_of_steps(np.arange(found.num_steps))
    assert_same(steps, everything["valid"].nonzero()[0])
    with pytest.raises(IndexError, match="are out of range: the data set has"):
        found.rows(np.array([found.num_rows]))


def test_the_moments_over_several_files_match_the_moments_of_all_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    with writer(tmp_path / "set", episodes_per_file=2) as written:
        for _ in range(5):
            written.add_episode(episode(rng, 9))
    found = DataSet(tmp_path / "set")
    rows, moments = found.rows(np.arange(found.num_rows)), found.moments()
    assert sorted(moments) == ["actions/1", "logp", "obs/camera", "obs/place", "rewards"]
    for name, numbers in (
        ("obs/place", rows["obs"]["place"]),
        ("obs/camera", rows["obs"]["camera"]),
        ("actions/1", rows["actions"][1][rows["valid"]]),
        ("rewards", rows["rewards"][rows["valid"]]),
    ):
        expected = Moments.of(numbers, 1)
        assert moments[name].count == expected.count
        np.testing.assert_allclose(moments[name].mean, expected.mean, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(moments[name].squares, expected.squares, rtol=1e-12)


def test_an_empty_set_has_no_rows(tmp_path: Path) -> None:
    writer(tmp_path / "set").close()
    found = DataSet(tmp_path / "set")
    assert (found.num_rows, found.num_steps, found.moments()) == (0, 0, {})
    assert found.episodes.starts.tolist() == []
    assert found.rows(np.zeros(0, np.int64))["obs"]["place"].shape == (0, 3)


def test_file_sizes_are_checked_when_a_set_is_opened(tmp_path: Path, wording) -> None:
    with writer(tmp_path / "set") as written:
        written.add_episode(episode(np.random.default_rng(9), 3))
    path = tmp_path / "set" / "000000.arrow"
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with pytest.raises(DataSetError, match=r"000000\.arrow has .* bytes, but the manifest lists"):
        DataSet(tmp_path / "set")
    path.write_bytes(bytes(len(data)))
    with wording.raised(DataSetError):
        DataSet(tmp_path / "set").file(0)
    path.unlink()
    with pytest.raises(DataSetError, match=r"000000\.arrow is missing"):
        DataSet(tmp_path / "set")


def test_a_file_whose_columns_differ_from_the_manifest_is_refused(tmp_path: Path, wording) -> None:
    for name, kind in (("set", np.float64), ("other", np.int64)):
        with SetWriter(tmp_path / name, Discrete(2), Box(0, 9, (2,), kind)) as written:
            own = {"obs": np.zeros(2, np.int64), "actions": np.zeros((1, 2), kind), "rewards": np.zeros(1)}
            written.add_episode({**own, "terminateds": np.ones(1, bool), "truncateds": np.zeros(1, bool)})
    opened = DataSet(tmp_path / "set")
    (tmp_path / "set" / "000000.arrow").write_bytes((tmp_path / "other" / "000000.arrow").read_bytes())
    with wording.raised(DataSetError, "actions", "fixed_size_list"):
        opened.file(0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "has format 2, but this rlrun reads formats up to 1: update rlrun"),
        ({"format": "1"}, "is not a data set manifest: format '1'"),
        ({"spaces": {}}, "lacks 'observation'"),
        ({"columns": {}}, "the column 'obs/place' is None"),
        ({"agents": [3]}, "must be strings"),
        ({"files": [{"name": "../../etc/passwd", "sha256": 64 * "0"}]}, "is not a valid entry"),
        ({"files": [{"name": "000000.arrow", "sha256": 64 * "0", "rows": 2, "steps": 2, "bytes": 9}]}, "2 steps in 2"),
    ],
)
def test_invalid_manifests_are_refused(tmp_path: Path, change: dict[str, Any], message: str, wording) -> None:
    with writer(tmp_path / "set"):
        pass
    path = tmp_path / "set" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataSetError, match=message):
        read_manifest(tmp_path / "set")
    with wording.raised(DataSetError):
        read_manifest(tmp_path / "nowhere")


def test_rows_that_do_not_match_the_declared_columns_are_refused(tmp_path: Path, wording) -> None:
    own = episode(np.random.default_rng(10), 3)
    with wording.raised(ValueError, "rewards"):
        writer(tmp_path / "set").add_episode({**own, "rewards": np.zeros((3, 1))})
    with wording.raised(ValueError):
        writer(tmp_path / "set").add_episode({name: column for name, column in own.items() if name != "logp"})
    with pytest.raises(TypeError, match="Cannot cast"):
        writer(tmp_path / "set").add_episode({**own, "actions": (np.zeros(3), own["actions"][1])})


@pytest.mark.parametrize("seed", range(4))
def test_slots_written_together_give_the_same_bytes_as_slots_written_one_by_one(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    limits = {"episodes_per_file": 4, "rows_per_file": 12}
    at_once, alone = writer(tmp_path / "at once", **limits), writer(tmp_path / "alone", **limits)
    for _ in range(6):
        steps = int(rng.integers(1, 6))
        parts = [running_episode(rng, steps) | {"valid": rng.random(steps) > 0.3} for _ in range(3)]
        begins = (rng.random(3) > 0.8).tolist()
        for slot, own in enumerate(parts):
            alone.add(str(slot), own, begins=begins[slot])
        rows = {name: map_tree(lambda *leaves: np.stack(leaves, 1), *(own[name] for own in parts)) for name in parts[0]}
        at_once.add_slots(["0", "1", "2"], rows, begins)
    alone.close()
    at_once.close()
    expected, found = ({path.name: path.read_bytes() for path in part.folder.iterdir()} for part in (alone, at_once))
    assert len(expected) > 3
    assert found == expected


def test_a_running_episode_does_not_keep_rows_of_stored_episodes_in_memory(tmp_path: Path) -> None:
    space, steps = Box(0, 255, (2000,), np.uint8), 10
    obs, numbers, flags = np.ones((steps + 1, 8, 2000), np.uint8), np.zeros((steps, 8)), np.zeros((steps, 8), np.bool_)
    valid = np.ones((steps, 8), np.bool_)
    valid[-1, 1:] = False  # the episodes of all slots except the first one end
    rows = {"obs": obs, "actions": numbers.astype(np.int64), "rewards": numbers, "terminateds": flags}
    written = SetWriter(tmp_path / "set", space, Discrete(2), episodes_per_file=7)
    for fragments in range(20):
        if fragments == 1:  # measures from here on, because the first fragment imports Arrow
            tracemalloc.start()
        written.add_slots([*"01234567"], {**rows, "truncateds": flags, "valid": valid}, [False] * 8)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 19 * steps * 2000 < kept < 2 * 19 * steps * 2000
