"""Data sets from other formats and to them."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

from rlrun.cli.main import cli
from rlrun.engine.data.tree import named_leaves
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.layout import LOGP_FORM
from rlrun.engine.datasets.writer import SetWriter

h5py = pytest.importorskip("h5py")

OBSERVATION = Dict(place=Box(-np.inf, 1, (2,)), inner=Tuple([Discrete(3), Box(0, 255, (2, 2, 1), np.uint8)]))
ACTION = Dict(aim=Box(-2, 2, (1,)), gears=MultiDiscrete([2, 3]))


def convert(*words: object) -> Result:
    return CliRunner().invoke(cli, ["dataset", "convert", *(str(word) for word in words)])


def write(folder: Path, *, nested: bool = True) -> DataSet:
    rng = np.random.default_rng(0)
    spaces = (OBSERVATION, ACTION) if nested else (OBSERVATION["place"], Discrete(4, start=2))
    with SetWriter(folder, *spaces, further={"logp": LOGP_FORM}, episodes_per_file=3) as written:
        for number, steps in enumerate((3, 1, 4, 2, 5)):
            place = rng.uniform(-1, 1, (steps + 1, 2)).astype(np.float32)
            camera = rng.integers(0, 256, (steps + 1, 2, 2, 1), np.uint8)
            aim = rng.uniform(-2, 2, (steps, 1)).astype(np.float32)
            rows: dict[str, Any] = {
                "obs": {"place": place, "inner": (rng.integers(0, 3, steps + 1), camera)} if nested else place,
                "actions": {"aim": aim, "gears": rng.integers(0, 2, (steps, 2))} if nested else np.full(steps, 4),
                "rewards": rng.normal(size=steps),
                "terminateds": np.arange(1, steps + 1) == steps * (number % 2),
                "truncateds": np.arange(1, steps + 1) == steps * (number % 3 == 0),
                "logp": rng.normal(size=steps).astype(np.float32),
                "weights_version": np.full(steps, number),
            }
            written.add_episode(rows, seed=10 + number, agent="ab"[number % 2])
    return DataSet(folder)


def assert_equal(found: DataSet, expected: DataSet, but: Sequence[str] = ()) -> None:
    assert found.manifest.spaces == expected.manifest.spaces
    assert found.agents == expected.agents or "agent" in but
    own, other = (dict(named_leaves(one.rows(np.arange(one.num_rows)))) for one in (found, expected))
    assert own.keys() | set(but) == other.keys() | set(but)
    for name in own.keys() - set(but):
        np.testing.assert_array_equal(own[name], other[name])
        assert own[name].dtype == other[name].dtype


def written_csv(path: Path, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def test_a_data_set_converted_to_parquet_and_back_is_unchanged(tmp_path: Path) -> None:
    own = write(tmp_path / "set")
    assert convert(own.folder, tmp_path / "set.parquet").exit_code == 0
    assert convert(tmp_path / "set.parquet", tmp_path / "again").exit_code == 0
    assert_equal(DataSet(tmp_path / "again"), own)


def test_episodes_of_a_data_set_converted_to_csv_and_back_with_its_spaces_are_unchanged(tmp_path: Path) -> None:
    own = write(tmp_path / "set")
    assert convert(own.folder, tmp_path / "set.csv").exit_code == 0
    done = convert(tmp_path / "set.csv", tmp_path / "again", "--spaces", f"{own.folder}/manifest.json")
    assert done.exit_code == 0, done.output
    assert_equal(DataSet(tmp_path / "again"), own, but=("agent",))


def test_episodes_of_a_data_set_converted_to_minari_and_back_are_unchanged(tmp_path: Path) -> None:
    own = write(tmp_path / "set")
    assert convert(own.folder, tmp_path / "boat-v0").exit_code == 0
    done = convert(tmp_path / "boat-v0", tmp_path / "again")
    assert done.exit_code == 0, done.output
    assert_equal(DataSet(tmp_path / "again"), own, but=("agent", "logp", "weights_version"))
    assert DataSet(tmp_path / "again").manifest.about == {"minari": "boat-v0"}


def test_episodes_of_a_data_set_converted_to_demonstrations_and_back_with_spaces_are_unchanged(tmp_path: Path) -> None:
    own = write(tmp_path / "set", nested=False)
    assert convert(own.folder, tmp_path / "set.npz").exit_code == 0
    done = convert(tmp_path / "set.npz", tmp_path / "again", "--spaces", f"{own.folder}/manifest.json")
    assert done.exit_code == 0, done.output
    assert_equal(DataSet(tmp_path / "again"), own, but=("agent", "logp", "weights_version", "seed"))


def test_the_log_of_a_simulator_is_converted_to_a_data_set(tmp_path: Path, wording) -> None:
    names = ["run", "level", "flow", "valve", "cost", "failed", "pump", "operator", "obs/raw"]
    rows = [
        ["a", 1.0, 10, 0.1, -1, False, 7, "ada", 0],
        ["a", 2.0, 11, 0.2, -2, False, 7, "ada", 0],
        ["a", 3.0, 12, 0.3, -3, True, 7, "ada", 0],  # terminated: no final observation is needed
        ["b", 4.0, 13, -0.4, -4, False, 8, "bo", 0],
        ["b", 5.0, 14, 0.5, -5, False, 8, "bo", 0],
        ["b", 6.0, 15, 0.9, -6, False, 8, "bo", 0],  # not terminated: becomes the final observation
        ["c", 7.0, 16, 0.1, -7, False, 9, "bo", 0],  # an episode that is only a final observation is dropped
    ]
    log = written_csv(tmp_path / "log.csv", names, rows)
    words = ("--obs", "level,flow", "--actions", "valve", "--rewards", "cost", "--terminateds", "failed")
    done = convert(log, tmp_path / "set", *words, "--episode", "run")
    assert done.exit_code == 0, done.output
    assert (
        "the table has no final observations: for an episode that did not terminate, the last step is dropped "
        "and its observation becomes the final one"
    ) in done.output
    assert wording("obs/raw") in done.output.splitlines()
    found = DataSet(tmp_path / "set")
    assert found.observation_space == Box(-np.inf, np.inf, (2,))
    assert found.action_space == Box(-0.4, 0.9, (1,))
    assert found.episodes.lengths.tolist() == [3, 2]
    batch = found.rows(np.arange(found.num_rows))
    assert batch["obs"].tolist() == [[1, 10], [2, 11], [3, 12], [3, 12], [4, 13], [5, 14], [6, 15]]
    assert batch["actions"][batch["valid"], 0].tolist() == pytest.approx([0.1, 0.2, 0.3, -0.4, 0.5])
    assert batch["rewards"].tolist() == [-1, -2, -3, 0, -4, -5, 0]
    assert batch["terminateds"].tolist() == [False, False, True, False, False, False, False]
    assert batch["pump"].tolist() == [7, 7, 7, 0, 8, 8, 0]


def test_final_observations_are_taken_from_the_next_obs_column_if_one_is_given(tmp_path: Path) -> None:
    names = ["obs", "actions", "rewards", "after", "truncateds"]
    rows = [[0.5, 1, 1.0, 1.5, False], [1.5, 0, 1.0, 2.5, True], [0.0, 2, 1.0, 9.0, True]]
    log = written_csv(tmp_path / "log.csv", names, rows)
    assert convert(log, tmp_path / "set", "--next-obs", "after").exit_code == 0
    found = DataSet(tmp_path / "set")
    assert found.action_space == Discrete(3)
    batch = found.rows(np.arange(found.num_rows))
    assert batch["obs"][:, 0].tolist() == [0.5, 1.5, 2.5, 0.0, 9.0]
    assert batch["truncateds"].tolist() == [False, True, False, True, False]


def test_a_parquet_file_with_list_columns_is_converted_to_a_data_set(tmp_path: Path) -> None:
    columns = {
        "obs": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]],
        "actions": [[0, 1], [2, 0], [1, 1]],
        "rewards": [1.0, 2.0, 3.0],
        "terminateds": [False, False, True],
    }
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
    assert convert(tmp_path / "log.parquet", tmp_path / "set").exit_code == 0
    found = DataSet(tmp_path / "set")
    assert found.action_space == MultiDiscrete([3, 2])
    assert found.rows(np.arange(4))["obs"].tolist() == [[0, 1], [2, 3], [4, 5], [4, 5]]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--obs", "levle", "--actions", "valve"), "no column 'levle', only level, valve; did you mean 'level'?"),
        (("--actions", "valve"), "no column 'obs' or 'obs[0]'"),
        (("--obs", "level", "--actions", "valve"), "no column 'rewards'"),
        (("--spaces", "log.csv"), "log.csv has no valid spaces"),
    ],
)
def test_the_error_for_a_missing_column_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    written_csv(tmp_path / "log.csv", ["level", "valve"], [[1, 2]])
    done = convert("log.csv", "set", *words)
    assert done.exit_code == 2
    assert told in done.output


def test_non_finite_numbers_are_reported_during_conversion(tmp_path: Path, wording) -> None:
    rows = [[0.0, 1.0, 1.0, False], ["nan", 1.0, 1.0, False], [1.0, 1.0, 1.0, True]]
    log = written_csv(tmp_path / "log.csv", ["obs", "actions", "rewards", "terminateds"], rows)
    done = convert(log, tmp_path / "set")
    assert done.exit_code == 5
    assert wording("obs", "NaN") in done.output.splitlines()


def test_a_failed_conversion_leaves_no_files_behind(tmp_path: Path, wording) -> None:
    own = write(tmp_path / "set")
    assert convert(own.folder, tmp_path / "boat-v0").exit_code == 0
    with h5py.File(tmp_path / "boat-v0" / "data" / "main_data.hdf5", "a") as file:
        del file["episode_3"]["rewards"]
        file["episode_3"]["rewards"] = np.ones(7)
    done = convert(tmp_path / "boat-v0", tmp_path / "again")
    assert done.exit_code == 2
    assert done.output == wording("obs/place")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["boat-v0", "set"]
    done = convert(tmp_path / "boat-v0", own.folder)
    assert done.exit_code == 2
    assert done.output == wording()


def rllib_line(**columns: Any) -> str:
    batch = {
        "type": "SampleBatch",
        "obs": [[0.0, 1.0], [1.0, 2.0], [5.0, 5.0]],
        "new_obs": [[1.0, 2.0], [2.0, 3.0], [6.0, 6.0]],
        "actions": [0, 1, 1],
        "rewards": [1.0, 2.0, 3.0],
        "terminateds": [False, True, False],
        "truncateds": [False, False, True],
        "eps_id": [11, 11, 12],
        "action_logp": [-0.5, -0.6, -0.7],
        "infos": [{}, {}, {}],
        "t": [0, 1, 0],
    }
    return json.dumps(batch | columns) + "\n"


def test_sample_batches_of_rllib_are_converted_to_a_data_set(tmp_path: Path) -> None:
    folder = tmp_path / "rllib"
    folder.mkdir()
    (folder / "output-0.json").write_text(rllib_line() + rllib_line(eps_id=[13, 13, 14]))
    done = convert(folder, tmp_path / "set")
    assert done.exit_code == 0, done.output
    found = DataSet(tmp_path / "set")
    assert (found.num_episodes, found.num_steps) == (4, 6)
    batch = found.rows(np.arange(5))
    assert batch["obs"].tolist() == [[0, 1], [1, 2], [2, 3], [5, 5], [6, 6]]
    assert batch["terminateds"].tolist() == [False, True, False, False, False]
    assert batch["truncateds"].tolist() == [False, False, False, True, False]
    assert batch["logp"][:2].tolist() == pytest.approx([-0.5, -0.6])


def test_packed_rllib_columns_are_refused_with_instructions_to_unpack_them(tmp_path: Path) -> None:
    path = tmp_path / "output.json"
    path.write_text(rllib_line() + rllib_line(obs="BCJNGGRApQAAAA=="))
    done = convert(path, tmp_path / "set")
    assert done.exit_code == 2
    assert "line 2 has packed columns (obs). rlrun does not read them, because they contain pickles" in done.output
    assert f'JsonReader("{path}").read_all_files()' in done.output
    assert "compress_columns=[]" in done.output
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{}", "line 1 is not an RLlib sample batch: 'type'"),
        (
            '{"type": "MultiAgentBatch", "policy_batches": {"a": {}, "b": {}}}',
            "must have batches of one policy, not of a, b",
        ),
        ("[", "line 1 is not an RLlib sample batch"),
    ],
)
def test_json_that_is_not_an_rllib_sample_batch_is_refused(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "output.json").write_text(line)
    done = convert(tmp_path / "output.json", tmp_path / "set")
    assert done.exit_code == 2
    assert told in done.output


def test_links_in_a_minari_file_are_not_followed(tmp_path: Path, wording) -> None:
    own = write(tmp_path / "set", nested=False)
    assert convert(own.folder, tmp_path / "boat-v0").exit_code == 0
    with h5py.File(tmp_path / "secret.hdf5", "w") as file:
        file["rewards"] = np.ones(3)
    with h5py.File(tmp_path / "boat-v0" / "data" / "main_data.hdf5", "a") as file:
        del file["episode_0"]["rewards"]
        file["episode_0"]["rewards"] = h5py.ExternalLink(str(tmp_path / "secret.hdf5"), "rewards")
    done = convert(tmp_path / "boat-v0", tmp_path / "again")
    assert done.exit_code == 2
    assert done.output == wording()


def test_data_sets_in_the_arrow_layout_of_minari_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "boat-v0" / "data"
    space = {"type": "Box", "dtype": "float32", "shape": [2], "low": [-np.inf, 0.0], "high": [np.inf, 1.0]}
    tree = {"type": "Dict", "subspaces": {"place": space, "gear": {"type": "Discrete", "dtype": "int64", "n": 3}}}
    (folder / "0").mkdir(parents=True)
    metadata = {"data_format": "arrow", "observation_space": json.dumps(tree), "action_space": json.dumps(space)}
    (folder / "metadata.json").write_text(json.dumps(metadata))
    (folder / "0" / "metadata.json").write_text(json.dumps({"id": 0, "seed": 5}))
    pairs = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6, dtype=np.float32)), 2)
    batch = pa.RecordBatch.from_pydict(
        {
            "observations": pa.StructArray.from_arrays([pairs, pa.array([0, 1, 2])], names=["place", "gear"]),
            "actions": pairs,
            "rewards": [1.0, 2.0, 0.0],
            "terminations": [False, True, False],
            "truncations": [False, False, False],
        }
    )
    with pa.OSFile(str(folder / "0" / "part-0.arrow"), "w") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    done = convert(tmp_path / "boat-v0", tmp_path / "set")
    assert "'actions' is outside" in done.output
    found = DataSet(tmp_path / "set")
    rows = found.rows(np.arange(3))
    assert rows["obs"]["place"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert rows["obs"]["gear"].tolist() == [0, 1, 2]
    assert rows["rewards"].tolist() == [1, 2, 0]
    assert rows["seed"].tolist() == [5, 5, 5]
    assert found.action_space == Box(np.array([-np.inf, 0], np.float32), np.array([np.inf, 1], np.float32))


def test_an_unknown_format_is_refused_with_a_list_of_known_ones(tmp_path: Path, wording) -> None:
    own = write(tmp_path / "set", nested=False)
    done = convert(own.folder, tmp_path / "set.xlsx")
    assert done.exit_code == 2
    assert done.output == wording()
    (tmp_path / "log.txt").touch()
    assert convert(tmp_path / "log.txt", tmp_path / "new").exit_code == 2
    assert "does not exist" in convert(tmp_path / "nowhere.csv", tmp_path / "new").output


@pytest.mark.parametrize("name", ["set.csv", "set.parquet", "set.npz", "minari"])
def test_the_folder_that_a_conversion_writes_to_is_created(tmp_path: Path, name: str) -> None:
    write(tmp_path / "set", nested=False)
    done = convert(tmp_path / "set", tmp_path / "new" / name)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "new" / name).exists()


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_converting_an_empty_data_set_to_a_file_is_refused(tmp_path: Path, suffix: str, wording) -> None:
    SetWriter(tmp_path / "set", Box(0, 1, (1,)), Discrete(2)).close()
    done = convert(tmp_path / "set", tmp_path / f"set{suffix}")
    assert done.exit_code == 2
    assert done.output == wording()
    assert not (tmp_path / f"set{suffix}").exists()
