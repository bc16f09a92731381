"""Conversion of data sets to and from other formats.

The format is inferred from the path: its suffix, and whether it is a file or a folder.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rlrun.bridges.datasets.minari_folder import data_folder, minari_source, write_minari
from rlrun.bridges.datasets.table_files import (
    read_csv,
    read_npz,
    read_parquet,
    read_rllib_json,
    write_csv,
    write_npz,
    write_parquet,
)
from rlrun.engine.checkpoint.file_systems import is_uri
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.episodes import EpisodeSource
from rlrun.engine.datasets.layout import SetSpaces
from rlrun.engine.datasets.manifest import MANIFEST_FILE, is_data_set
from rlrun.engine.datasets.remote_folder import remote_folder
from rlrun.engine.datasets.set_folder import LocalFolder, SetFolder
from rlrun.engine.datasets.tables import TableNames, table_source
from rlrun.engine.messages.errors import UsageError

WRITERS: dict[str, Callable[[DataSet, Path], None]] = {
    ".csv": write_csv,
    ".parquet": write_parquet,
    ".npz": write_npz,
    "": write_minari,
}
"""Functions that write a data set in another format, by the suffix of the path; "" is the folder of a Minari set."""


def export(found: DataSet, target: Path) -> None:
    """Exports a data set in the format that the path's suffix names, or in Minari's layout if there is no suffix.

    Raises:
        UsageError: The format is unknown or cannot represent the set, or the set has no steps.
    """
    write = WRITERS.get(target.suffix)
    if write is None:
        known = ", ".join(filter(None, WRITERS))
        raise UsageError(
            f"unknown format of {target}: use one of the suffixes {known}, or a folder without a suffix for Minari"
        )
    if target.suffix and not found.num_steps:
        raise UsageError(f"{found.folder} contains no steps to write to {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    write(found, target)


def imported(source: Path, names: TableNames, spaces: SetSpaces | None) -> tuple[EpisodeSource, list[str]]:
    """Reads the episodes of a data set in another format.

    Args:
        source: Path of a CSV, Parquet or npz file, a file or folder in RLlib's JSON format, or the folder of a Minari
            set.
        names: Names of a table's columns.
        spaces: Spaces of observations and actions; None to read them from the source, or to infer them.

    Returns:
        The episodes, and remarks on what was inferred or left out.

    Raises:
        UsageError: The source does not exist, cannot be read or parsed, or has an unknown format.
    """
    if not source.exists():
        raise UsageError(f"{source} does not exist")
    if source.is_dir():
        if (folder := data_folder(source)) is not None:
            return minari_source(folder, spaces), []
        return table_source(read_rllib_json(source), _of_rllib(names), spaces=spaces)
    if source.suffix == ".csv":
        return table_source(read_csv(source), names, spaces=spaces)
    if source.suffix == ".npz":
        return table_source(read_npz(source), names, spaces=spaces)
    if source.suffix == ".json":
        return table_source(read_rllib_json(source), _of_rllib(names), spaces=spaces)
    if source.suffix in (".parquet", ".pq"):
        table, stored = read_parquet(source)
        about = {name: stored[name] for name in ("agents", "about") if name in stored}
        return table_source(table, names, spaces=spaces or stored.get("spaces"), **about)
    raise UsageError(f"unknown format of {source}: must be CSV, Parquet, npz, RLlib's JSON or a Minari folder")


def _of_rllib(names: TableNames) -> TableNames:
    return TableNames(names.obs, names.actions, names.next_obs or ("next_obs",)) if names == TableNames() else names


def folder_at(place: str) -> SetFolder:
    """Opens the folder of a data set at a path or URI given by the user, even if files of the set are missing.

    Raises:
        UsageError: There is no data set at the URI, or the storage is missing or cannot be reached.
        DataSetError: The path is not a data set, or its manifest is malformed.
    """
    if not is_uri(place):
        return LocalFolder(Path(place))
    if (found := remote_folder(place)) is None:
        raise UsageError(f"there is no data set at {place}; name a folder that contains a {MANIFEST_FILE}")
    return found


def opened(place: str) -> DataSet:
    """Opens a data set at a path or URI given by the user.

    Raises:
        UsageError: There is no data set; the message suggests a conversion if it may be in another format.
        DataSetError: A file of the set is missing or does not have the expected size.
    """
    if is_uri(place):
        return DataSet(folder_at(place))
    path = Path(place)
    if not is_data_set(path):
        advice = f"; convert it with `rlrun dataset convert {path} FOLDER`" if path.exists() else ""
        what = "is not a data set" if path.exists() else "does not exist"
        raise UsageError(f"{path} {what}{advice}")
    return DataSet(path)
