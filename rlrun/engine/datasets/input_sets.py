"""Lookup of the data sets that a run learns from, and their verification when the run is resumed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from rlrun.engine.checkpoint.file_systems import is_uri
from rlrun.engine.data.demonstrations import Demonstrations, load_demonstrations
from rlrun.engine.data.tree import named_leaves
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.input_config import InputConfig
from rlrun.engine.datasets.manifest import MANIFEST_FILE, is_data_set
from rlrun.engine.datasets.remote_folder import remote_folder
from rlrun.engine.messages.errors import DataSetError, UsageError


def data_at(path: str) -> DataSet | None:
    """Opens the data set at a path or URI; returns None if there is none.

    Args:
        path: URI of the folder in a remote storage; or a path relative to the current directory, to the directory of
            the loaded spec, or to another directory in `sys.path`.

    Raises:
        UsageError: There is no such storage, or it cannot be reached.
        DataSetError: The data set cannot be read.
    """
    if is_uri(path):
        remote = remote_folder(path)
        return None if remote is None else DataSet(remote)
    places = [Path(), *map(Path, sys.path)]
    folder = next((place / path for place in places if is_data_set(place / path)), None)
    return None if folder is None else DataSet(folder)


def opened(part: InputConfig) -> DataSet:
    """Opens a data set by path or URI; raises an error if there is none.

    Raises:
        UsageError: There is no such data set, or it holds no steps.
        DataSetError: The data set cannot be read.
    """
    data = data_at(part.path)
    if data is None:
        where = f"at {part.path}" if is_uri(part.path) else f"{part.path} in the current directory or next to the spec"
        raise UsageError(f"there is no data set {where}; name a folder that contains a {MANIFEST_FILE}")
    if not data.num_steps:
        raise UsageError(f"{data.folder} contains no steps to learn from")
    return data


def identity(data: DataSet) -> dict[str, Any]:
    """Returns the SHA-256 digests of a data set's manifest and files, which a checkpoint stores to identify the set."""
    files = {entry.name: entry.sha256 for entry in data.manifest.files}
    return {"manifest": data.digest, "files": files}


def require_same(sets: Sequence[DataSet], identities: Sequence[Mapping[str, Any]]) -> None:
    """Validates that the data sets of a resumed run still have the contents recorded in the run's checkpoint.

    The folders of the data sets may differ.

    Raises:
        DataSetError: A data set was altered since the checkpoint; the message names the file.
        ValueError: The number of data sets differs.
    """
    for data, before in zip(sets, identities, strict=True):
        if data.digest == before["manifest"]:
            continue
        files, now = dict(before["files"]), identity(data)["files"]
        names = [*files, *(name for name in now if name not in files)]
        altered = next((name for name in names if files.get(name) != now.get(name)), MANIFEST_FILE)
        raise DataSetError(
            f"{data.folder}/{altered} has changed since the checkpoint's run learned from it: restore the "
            "file, or start a new run"
        )


def within_data(space: gymnasium.Space[Any], sets: Iterable[DataSet]) -> gymnasium.Space[Any]:
    """Returns an action space in which the lowest and highest recorded actions replace infinite bounds of a Box."""
    if not isinstance(space, gymnasium.spaces.Box) or space.is_bounded():
        return space
    low, high = np.full(space.shape, np.inf), np.full(space.shape, -np.inf)
    for columns in (columns for data in sets for columns in data.files()):
        actions = columns["actions"][columns["valid"]]
        low = np.minimum(low, actions.min(axis=0, initial=np.inf))
        high = np.maximum(high, actions.max(axis=0, initial=-np.inf))
    low = np.where(np.isfinite(space.low), space.low, low)
    high = np.where(np.isfinite(space.high), space.high, high)
    return gymnasium.spaces.Box(low.astype(space.dtype), high.astype(space.dtype), dtype=space.dtype.type)


def demonstrations_at(path: str) -> Demonstrations:
    """Loads demonstrations from the folder of a data set, or from a demonstration file.

    Args:
        path: Path or URI of the folder, or path of the file. A relative path is searched for in the current directory
            and in `sys.path`; see `load_demonstrations`.

    Raises:
        UsageError: There are no demonstrations, or their action space is nested.
        DataSetError: A file of the data set cannot be read.
    """
    found = data_at(path)
    return load_demonstrations(path) if found is None else demonstrations_of(found)


def demonstrations_of(found: DataSet) -> Demonstrations:
    """Converts a data set to demonstrations; drops seeds, agents' names, versions of weights and additional columns.

    Raises:
        UsageError: The set holds no steps, or its action space is nested.
        DataSetError: A file of the data set cannot be read.
    """
    if not found.num_steps:
        raise UsageError(f"{found.folder} contains no steps to learn from")
    rows = found.rows(np.arange(found.num_rows))
    if isinstance(rows["actions"], dict | tuple):
        raise UsageError(
            f"{found.folder} contains nested actions, but demonstrations must be single numbers or vectors"
        )
    names = ("actions", "rewards", "terminateds", "truncateds", "valid")
    start = int(found.action_space.start) if isinstance(found.action_space, gymnasium.spaces.Discrete) else 0
    about = {**found.manifest.about, **({"first_action": start} if start else {})}
    return Demonstrations({name: rows[name] for name in names}, dict(named_leaves(rows["obs"])), about)
