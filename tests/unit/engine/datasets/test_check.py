"""`rlrun dataset check` names the file, episode and row of what is wrong."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from gymnasium.spaces import Box, Dict, Discrete

from rlrun.cli.main import cli
from rlrun.engine.datasets.arrow_file import file_pieces
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.writer import SetWriter

OBSERVATION = Dict(place=Box(-1, 1, (2,)), gear=Discrete(3))


def dataset(*words: object) -> Result:
    return CliRunner().invoke(cli, ["dataset", *(str(word) for word in words)])


def write(folder: Path, episodes: int = 6, **settings: Any) -> Path:
    rng = np.random.default_rng(0)
    with SetWriter(folder, OBSERVATION, Box(-2, 2, (1,)), episodes_per_file=3, **settings) as written:
        for number in range(episodes):
            rows = {
                "obs": {"place": rng.uniform(-1, 1, (5, 2)).astype(np.float32), "gear": rng.integers(0, 3, 5)},
                "actions": rng.uniform(-2, 2, (4, 1)).astype(np.float32),
                "rewards": rng.normal(size=4),
                "terminateds": np.arange(4) == 3,
                "truncateds": np.zeros(4, np.bool_),
            }
            written.add_episode(rows, seed=number)
    return folder


def altered(folder: Path, name: str, row: int | slice, value: Any, file: int = 1) -> None:
    """Changes a number of a file, and the manifest with it, as a careless program would."""
    found = DataSet(folder)
    columns = {own: np.array(column) for own, column in found.file(file).items()}
    columns[name][row] = value
    data = b"".join(file_pieces(columns, found.manifest.columns))
    entry = found.manifest.files[file]
    (folder / entry.name).write_bytes(data)
    files = list(found.manifest.files)
    files[file] = replace(entry, sha256=hashlib.sha256(data).hexdigest(), size=len(data))
    replace(found.manifest, files=tuple(files)).save(folder)


def test_a_file_in_which_no_episode_ends_is_reported_without_a_traceback(tmp_path: Path) -> None:
    folder = write(tmp_path / "set")
    altered(folder, "valid", slice(None), True)
    done = dataset("check", folder)
    assert done.exit_code == 5, done.output
    assert "the file ends within an episode, without its final observation" in done.output


def test_an_intact_data_set_passes_the_check(tmp_path: Path) -> None:
    done = dataset("check", write(tmp_path / "set"))
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[1:] == ["ok"]


# Row 6 of the second file is the second row of that file's second episode, which is episode 4. Rows 4, 9 and 14 are
# final observations.
@pytest.mark.parametrize(
    ("name", "row", "value", "told"),
    [
        ("obs/place", 6, np.nan, "000001.arrow: episode 4, row 6: 'obs/place' contains NaN or infinite numbers"),
        ("obs/gear", 9, 3, "000001.arrow: episode 4, row 9: 'obs/gear' is outside Discrete(3)"),
        ("actions", 6, -2.5, "000001.arrow: episode 4, row 6: 'actions' is outside Box"),
        ("rewards", 6, np.inf, "episode 4, row 6: 'rewards' contains NaN"),
        ("terminateds", 6, True, "episode 4, row 6: a step that ends the episode is followed by another step"),
        ("truncateds", 9, True, "episode 4, row 9: a final observation has the flags of a step"),
        ("valid", 14, True, "episode 5, row 14: the file ends within an episode"),
        ("valid", 8, False, "episode 4, row 9: an episode has a final observation but no step"),
        ("episode", 7, 8, "episode 8, row 7: the episode number changes within an episode, and 1 more such row"),
        ("episode", slice(5, 10), 7, "episode 7, row 5: a gap: expected episode 4"),
        ("episode", slice(5, 10), 2, "episode 2, row 5: another episode has this number"),
        ("agent", 6, 1, "episode 4, row 6: 'agent' is not a valid index"),
    ],
)
def test_errors_are_reported_with_their_file_episode_and_row(
    tmp_path: Path, name: str, row: int, value: Any, told: str
) -> None:
    altered(write(tmp_path / "set"), name, row, value)
    done = dataset("check", tmp_path / "set")
    assert done.exit_code == 5
    assert any(line.startswith("WRONG 000001.arrow") and told in line for line in done.output.splitlines())


def test_the_row_of_a_final_observation_may_contain_any_action(tmp_path: Path) -> None:
    altered(write(tmp_path / "set"), "actions", 9, 77.0)
    assert dataset("check", tmp_path / "set").exit_code == 0


def test_altered_missing_and_foreign_files_are_named(tmp_path: Path, wording) -> None:
    folder = write(tmp_path / "set", episodes=9)
    first = folder / "000000.arrow"
    first.write_bytes(first.read_bytes()[:-1] + b"?")
    (folder / "000001.arrow").unlink()
    (folder / "000009.arrow").write_bytes(b"")
    (folder / ".000003.arrow.0123abcd.partial").write_bytes(b"")
    done = dataset("check", folder, "--json")
    assert done.exit_code == 5
    findings = {found["place"]: found for found in json.loads(done.output)["findings"]}
    assert findings["000000.arrow"]["text"] == wording()
    assert "is missing" in findings["000001.arrow"]["text"]
    assert findings["000009.arrow"]["text"] == wording()
    assert not findings[".000003.arrow.0123abcd.partial"]["is_wrong"]
    assert len(findings) == 4  # the third file is intact


def test_duplicate_episodes_are_reported(tmp_path: Path, wording) -> None:
    folder = write(tmp_path / "set")
    merged = tmp_path / "merged"
    assert dataset("merge", folder, folder, "-o", merged).exit_code == 0
    done = dataset("check", merged)
    assert done.exit_code == 5
    assert wording("30") in done.output.splitlines()


def test_unusual_rewards_and_cut_episodes_are_reported_as_notes(tmp_path: Path, wording) -> None:
    rows = {"obs": np.zeros(3, np.int64), "actions": np.zeros(2, np.int64), "rewards": np.array([0.0, 1e4])}
    flags = {"terminateds": np.zeros(2, np.bool_), "truncateds": np.zeros(2, np.bool_)}
    with SetWriter(tmp_path / "set", Discrete(2), Discrete(2)) as written:
        written.add_episode({**rows, **flags})
    done = dataset("check", tmp_path / "set")
    assert done.exit_code == 0
    assert done.output == wording()
    assert done.output == wording("03")


def test_data_sets_are_split_and_sampled_in_whole_episodes(tmp_path: Path, wording) -> None:
    folder = write(tmp_path / "set", episodes=10)
    first, second, few = (tmp_path / name for name in ("first", "second", "few"))
    assert dataset("split", folder, "-o", first, second, "--share", 0.7).exit_code == 0
    done = dataset("sample", folder, "-o", few, "--episodes", 4, "--seed", 1, "--json")
    assert json.loads(done.stdout)["sets"] == [{"path": str(few), "episodes": 4, "steps": DataSet(few).num_steps}]
    seeds = [set(DataSet(one).rows(np.arange(DataSet(one).num_rows))["seed"].tolist()) for one in (first, second, few)]
    assert [len(own) for own in seeds] == [7, 3, 4]
    assert seeds[0] | seeds[1] == set(range(10))
    everything, own = DataSet(folder), DataSet(second)
    seed = int(own.rows(np.array([0]))["seed"][0])
    start = int(everything.episodes.starts[seed])
    for name, column in own.rows(np.arange(5)).items():
        if name not in ("episode", "obs"):
            np.testing.assert_array_equal(column, everything.rows(np.arange(start, start + 5))[name])
    done = dataset("sample", folder, "-o", tmp_path / "more", "--episodes", 11)
    assert done.exit_code == 2
    assert done.output == wording("10", "11")


def test_episode_lengths_that_contradict_the_rows_are_reported(tmp_path: Path, wording) -> None:
    manifest = DataSet(write(tmp_path / "set")).manifest
    wrong = replace(manifest.files[1], lengths=np.array([3, 5, 4]))
    replace(manifest, files=(manifest.files[0], wrong)).save(tmp_path / "set")
    done = dataset("check", tmp_path / "set")
    assert done.exit_code == 5
    assert done.output == wording()


def test_data_sets_of_different_spaces_are_not_merged(tmp_path: Path, wording) -> None:
    with SetWriter(tmp_path / "other", Discrete(2), Discrete(2)):
        pass
    done = dataset("merge", write(tmp_path / "set"), tmp_path / "other", "-o", tmp_path / "merged")
    assert done.exit_code == 2
    assert done.output == wording()


def test_the_info_command_shows_what_a_data_set_holds(tmp_path: Path, wording) -> None:
    folder = write(tmp_path / "set", about={"env": {"id": "Boat-v0"}})
    done = dataset("info", folder, "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.output)
    assert (facts["episodes"], facts["steps"], facts["files"]) == (6, 24, 2)
    assert facts["spaces"]["observation"]["spaces"]["gear"] == {
        "type": "Discrete",
        "dtype": "int64",
        "n": 3,
        "start": 0,
    }
    assert facts["about"] == {"env": {"id": "Boat-v0"}}
    assert "steps: 24" in dataset("info", folder).output
    done = dataset("info", tmp_path)
    assert done.exit_code == 2
    assert done.output == wording()
