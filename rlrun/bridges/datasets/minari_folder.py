"""Minari data sets: reads the HDF5, Arrow and Parquet layouts (arrays and spaces, no envs), and writes HDF5.

Minari itself is not needed, but HDF5 requires `h5py` from the `minari` extra. A folder holds ``data/metadata.json``,
and either ``data/main_data.hdf5`` with a group for each episode, or a folder of Arrow or Parquet files for each
episode.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Dict, Tuple
from numpy.typing import NDArray

from rlrun.engine.checkpoint.plain_json import load_json
from rlrun.engine.data.space_json import space_from_json, space_to_json
from rlrun.engine.data.space_kinds import known_kind
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.episodes import EpisodeRows, EpisodeSource, episodes_of
from rlrun.engine.datasets.layout import SetSpaces
from rlrun.engine.messages.errors import UsageError

METADATA_FILE = "metadata.json"
HDF5_FILE = "main_data.hdf5"

MINARI_VERSION = "0.5.4"
"""Version of Minari whose layout is written."""

STEP_NAMES = {"rewards": "rewards", "terminations": "terminateds", "truncations": "truncateds"}
"""Column names: Minari's -> rlrun's."""


def data_folder(path: Path) -> Path | None:
    """Folder that holds the metadata of the Minari data set at a path; None if there is no such data set."""
    return next((folder for folder in (path / "data", path) if (folder / METADATA_FILE).is_file()), None)


def minari_source(folder: Path, spaces: SetSpaces | None = None) -> EpisodeSource:
    """Reads the episodes of a Minari data set.

    Args:
        folder: Folder with `metadata.json`.
        spaces: Spaces of observations and actions; None for those in the metadata.

    Raises:
        UsageError: The metadata is malformed, or `h5py` is missing.
    """
    try:
        metadata = load_json((folder / METADATA_FILE).read_bytes())
        layout, name = metadata["data_format"], str(metadata.get("dataset_id", ""))
        spaces = spaces or SetSpaces(*(_space(metadata[f"{kind}_space"]) for kind in SetSpaces._fields))
    except KeyError as error:
        raise UsageError(f"{folder / METADATA_FILE} lacks {error}; pass the spaces with --spaces") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"cannot parse {folder / METADATA_FILE}: {error}") from error
    readers = {"hdf5": _hdf5_episodes, "arrow": _arrow_episodes, "parquet": _arrow_episodes}
    if layout not in readers:
        raise UsageError(f"{folder} has the unknown layout {layout!r:.80}; rlrun reads {', '.join(readers)}")
    return EpisodeSource(spaces, readers[layout](folder, spaces), about={"minari": name} if len(name) < 100 else {})


def write_minari(found: DataSet, path: Path) -> None:
    """Writes a data set to a new folder in Minari's HDF5 layout; keeps seeds, and stores additional columns as infos.

    Raises:
        UsageError: The folder exists, or `h5py` is missing.
    """
    h5py = _h5py()
    if path.exists():
        raise UsageError(f"{path} already exists: choose another folder")
    (path / "data").mkdir(parents=True)
    steps = 0
    with h5py.File(path / "data" / HDF5_FILE, "w", track_order=True) as file:
        for number, (rows, _) in enumerate(episodes_of(found)):
            group = file.create_group(f"episode_{number}")
            length = len(rows["rewards"])
            group.attrs.update({"id": number, "total_steps": length, "seed": int(rows["seed"][0])})
            named = {foreign: rows[ours] for foreign, ours in STEP_NAMES.items()}
            tree = {"observations": rows["obs"], "actions": rows["actions"], **named}
            further = {name: rows[name] for name in found.manifest.further}
            _put(group, tree | ({"infos": further} if further else {}))
            steps += length
    metadata = {
        "data_format": "hdf5",
        "jpeg_encoding": False,
        "dataset_id": path.name,
        "minari_version": MINARI_VERSION,
        "total_episodes": found.num_episodes,
        "total_steps": steps,
        "observation_space": json.dumps(_to_minari(space_to_json(found.observation_space))),
        "action_space": json.dumps(_to_minari(space_to_json(found.action_space))),
    }
    (path / "data" / METADATA_FILE).write_text(json.dumps(metadata), "utf-8")


def _space(text: Any) -> Space[Any]:
    return space_from_json(_from_minari(load_json(text)))


def _from_minari(data: Any) -> Any:
    """Converts a space in Minari's JSON to the form of `rlrun.engine.data.space_json`."""
    if isinstance(data, dict):
        own = {("spaces" if key == "subspaces" else key): _from_minari(part) for key, part in data.items()}
        return {"start": 0, "dtype": "int64", **own} if own.get("type") == "Discrete" else own
    if isinstance(data, list):
        return [_from_minari(part) for part in data]
    return str(data) if isinstance(data, float) and math.isinf(data) else data


def _to_minari(data: Any) -> Any:
    """Converts a space to Minari's JSON, in which bounds are arrays and may be infinite."""
    if isinstance(data, Mapping):
        own = {("subspaces" if key == "spaces" else key): _to_minari(part) for key, part in data.items()}
        if own.get("type") == "Box":
            own |= {key: np.broadcast_to(np.array(own[key]), own["shape"]).tolist() for key in ("low", "high")}
        return own
    if isinstance(data, list):
        return [_to_minari(part) for part in data]
    return float(data) if data in ("inf", "-inf") else data


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise UsageError("Minari's HDF5 files need h5py: pip install 'rlrun[minari]'") from error
    return h5py


def _put(group: Any, tree: Any) -> None:
    """Writes a tree of arrays to a group; parts of a tuple have the names _index_0, _index_1 and so on."""
    parts = {f"_index_{i}": part for i, part in enumerate(tree)} if isinstance(tree, tuple) else tree
    for name, part in parts.items():
        if isinstance(part, dict | tuple):
            _put(group.create_group(name), part)
        else:
            group.create_dataset(name, data=part)


def _hdf5_episodes(folder: Path, spaces: SetSpaces) -> Iterator[EpisodeRows]:
    path = folder / HDF5_FILE
    try:
        with _h5py().File(path, "r") as file:
            names = [name for name in file if name.startswith("episode_")]
            for name in sorted(names, key=lambda name: int(name.removeprefix("episode_"))):
                group = _member(file, name)
                read = {ours: _member(group, foreign)[()] for foreign, ours in STEP_NAMES.items()}
                read["obs"] = _hdf5_tree(group, "observations", spaces.observation)
                read["actions"] = _hdf5_tree(group, "actions", spaces.action)
                yield _episode(read, group.attrs.get("seed"), f"{path}: {name}")
    except (OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def _member(group: Any, name: str) -> Any:
    """Member of an HDF5 group, which must be in this file, since links could name any file of this machine.

    Raises:
        ValueError: The member is a link to elsewhere, or its numbers are in another file.
    """
    h5py = _h5py()
    member = group[name] if isinstance(group.get(name, getlink=True), h5py.HardLink) else None
    is_inside = member is not None and not (isinstance(member, h5py.Dataset) and (member.is_virtual or member.external))
    if not is_inside:
        raise ValueError(f"the file does not contain '{name}'")
    return member


def _hdf5_tree(group: Any, name: str, space: Space[Any]) -> Any:
    member = _member(group, name)
    if isinstance(space, Dict):
        return {key: _hdf5_tree(member, key, part) for key, part in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(_hdf5_tree(member, f"_index_{i}", part) for i, part in enumerate(space.spaces))
    return _shaped(member[()], space, name)


def _arrow_episodes(folder: Path, spaces: SetSpaces) -> Iterator[EpisodeRows]:
    numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())
    for number in numbers:
        path = folder / str(number)
        table = _arrow_table(path)
        try:
            read = {ours: table.column(foreign).to_numpy()[:-1] for foreign, ours in STEP_NAMES.items()}
            read["obs"] = _arrow_tree(table.column("observations"), spaces.observation, "observations")
            read["actions"] = _arrow_tree(table.column("actions").slice(0, len(table) - 1), spaces.action, "actions")
            about = path / METADATA_FILE
            seed = load_json(about.read_bytes()).get("seed") if about.is_file() else None
            yield _episode(read, seed, str(path))
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise UsageError(f"cannot read {path}: {error}") from error


def _arrow_table(folder: Path) -> Any:
    """Table of all Arrow or Parquet files in an episode's folder."""
    import pyarrow as pa
    import pyarrow.parquet

    files = sorted(path for path in folder.iterdir() if path.suffix in (".arrow", ".feather", ".parquet"))
    try:
        tables = [
            pyarrow.parquet.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()
            for path in files
        ]
        return pa.concat_tables(tables)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"cannot read {folder}: {error}") from error


def _arrow_tree(column: Any, space: Space[Any], name: str) -> Any:
    if isinstance(space, Dict | Tuple):
        struct = column.combine_chunks()
        items = space.spaces.items() if isinstance(space, Dict) else enumerate(space.spaces)
        parts = {key: _arrow_tree(_chunked(struct.field(str(key))), part, f"{name}/{key}") for key, part in items}
        return parts if isinstance(space, Dict) else tuple(parts.values())
    array = column.to_numpy()
    return _shaped(np.stack(list(array)) if len(array) and isinstance(array[0], np.ndarray) else array, space, name)


def _chunked(array: Any) -> Any:
    import pyarrow as pa

    return pa.chunked_array([array])


def _shaped(array: NDArray[Any], space: Space[Any], name: str) -> NDArray[Any]:
    """Entries of a space, in its shape and dtype.

    Raises:
        ValueError: The entries are not numbers.
    """
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} does not contain numbers; if it contains JPEG images, store them with jpeg_encoding=False"
        )
    shape, dtype = known_kind(space).form(space)
    return array.reshape(len(array), *shape).astype(dtype)


def _episode(read: dict[str, Any], seed: Any, place: str) -> EpisodeRows:
    steps = len(read["rewards"])
    number = -1 if seed is None else int(seed)
    read |= {name: read[name].astype(np.bool_) for name in ("terminateds", "truncateds")}
    read |= {"rewards": read["rewards"].astype(np.float64), "seed": np.full(steps, number)}
    if not steps:
        raise ValueError(f"{place} has no steps")
    return EpisodeRows(read)
