"""Manifest of a data set: spaces and columns, and each file's number of rows, size, digest, means and variances.

``manifest.json`` holds `format` (1), `spaces` (see `rlrun.engine.data.space_json`), `columns`, `agents`, `about` and
`files`. `about` holds notes, such as the env, for human readers only: no env is created from them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.checkpoint.durable import write_file
from rlrun.engine.checkpoint.plain_json import load_json
from rlrun.engine.data.space_json import dtype_named, shape_listed
from rlrun.engine.datasets.layout import ColumnForm, Columns, SetSpaces, column_forms, numeric_parts
from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.messages.errors import DataSetError

FORMAT = 1
MANIFEST_FILE = "manifest.json"

FILE_NAME = re.compile(r"\d{6,}\.arrow")
_SHA256 = re.compile(r"[0-9a-f]{64}")

MOST_NUMBERS_WITH_MOMENTS = 1024
"""Maximum size of a column's entries for which moments are stored; images have none."""


@dataclass(frozen=True)
class FileEntry:
    """Manifest entry of one file of a data set.

    Attributes:
        name: Name of the file.
        rows: Number of rows, including final observations.
        steps: Number of rows that hold a step.
        size: Size of the file in bytes.
        sha256: SHA-256 digest of the file, hexadecimal.
        moments: Count, mean and sum of squared deviations by column; see `moments_of`.
        lengths: Number of steps of each episode, in order.
    """

    name: str
    rows: int
    steps: int
    size: int
    sha256: str
    moments: Mapping[str, Moments]
    lengths: NDArray[np.int64]

    @property
    def episodes(self) -> int:
        """Number of episodes in the file, equal to the number of rows that hold a final observation."""
        return self.rows - self.steps


@dataclass(frozen=True)
class Manifest:
    """Content of a data set's manifest.

    Attributes:
        spaces: Spaces of observations and actions.
        columns: Dtypes and shapes of all columns, by name.
        agents: Names of the agents; the column `agent` refers to them by index.
        about: Notes for human readers, such as the env.
        files: Entries of the files, in the order of the rows.
        digest: SHA-256 digest of the manifest file, "" before it is written.
    """

    spaces: SetSpaces
    columns: Mapping[str, ColumnForm]
    agents: tuple[str, ...]
    about: Mapping[str, Any]
    files: tuple[FileEntry, ...] = ()
    digest: str = ""

    @property
    def further(self) -> dict[str, ColumnForm]:
        """Dtypes and shapes of additional columns by name, beyond those that every data set has."""
        own = column_forms(self.spaces, {})
        return {name: form for name, form in self.columns.items() if name not in own}

    def moments(self) -> dict[str, Moments]:
        """Returns count, mean and sum of squared deviations over all files, by name of the (numeric) column."""
        every = [entry.moments for entry in self.files]
        names = [name for name in self.columns if every and all(name in own for own in every)]
        return {name: reduce(Moments.merged, [own[name] for own in every]) for name in names}

    def save(self, folder: Path) -> None:
        """Writes the manifest to a data set's folder, atomically."""
        data = {
            "format": FORMAT,
            "spaces": self.spaces.to_json(),
            "columns": {name: {"dtype": form.dtype.name, "shape": form.shape} for name, form in self.columns.items()},
            "agents": self.agents,
            "about": self.about,
        }
        files = ",\n".join(json.dumps(_entry_to_json(entry), allow_nan=False) for entry in self.files)
        lines = [f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in data.items()]
        text = "{\n" + ",\n".join([*lines, f'"files": [\n{files}\n]']) + "\n}\n"
        write_file(folder / MANIFEST_FILE, text.encode())


def require_files(folder: Path, entries: Sequence[FileEntry]) -> None:
    """Validates that the files of a data set exist and have the sizes in the manifest.

    Raises:
        DataSetError: A file is missing, or has a different size.
    """
    for entry in entries:
        path = folder / entry.name
        try:
            size = path.stat().st_size
        except OSError as error:
            raise DataSetError(f"{path} is missing or unreadable: {error.strerror}") from error
        if size != entry.size:
            raise DataSetError(f"{path} has {size:,} bytes, but the manifest lists {entry.size:,}")


def is_data_set(folder: Path) -> bool:
    """Whether a path is the folder of a data set, that is, contains a manifest; the data set may be invalid."""
    return (folder / MANIFEST_FILE).is_file()


def read_manifest(folder: Path) -> Manifest:
    """Loads the manifest of a data set.

    Raises:
        DataSetError: The folder has no manifest, or its manifest is malformed or of a newer format.
    """
    path = folder / MANIFEST_FILE
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataSetError(f"{folder} is not a data set: cannot read its {MANIFEST_FILE}: {error.strerror}") from error
    return parsed_manifest(raw, str(folder))


def parsed_manifest(raw: bytes, folder: str) -> Manifest:
    """Parses the manifest of a data set.

    Args:
        raw: Content of the manifest file.
        folder: Folder of the data set, for messages.

    Raises:
        DataSetError: The content is malformed, or of a newer format.
    """
    path = f"{folder}/{MANIFEST_FILE}"
    try:
        data = load_json(raw)
        found = data["format"]
        if type(found) is int and found > FORMAT:
            raise DataSetError(
                f"{folder} has format {found}, but this rlrun reads formats up to {FORMAT}: update rlrun"
            )
        if found != FORMAT:
            raise ValueError(f"format {found!r:.80}")
        return _parsed(data, hashlib.sha256(raw).hexdigest())
    except KeyError as error:
        raise DataSetError(f"{path} is not a data set manifest: it lacks {error}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise DataSetError(f"{path} is not a data set manifest: {error}") from error


def _parsed(data: Mapping[str, Any], digest: str) -> Manifest:
    spaces = SetSpaces.from_json(data["spaces"])
    columns = {
        str(name): ColumnForm(dtype_named(form["dtype"]), shape_listed(form["shape"]))
        for name, form in data["columns"].items()
    }
    for name, form in column_forms(spaces, {}).items():
        if columns.get(name) != form:
            raise ValueError(
                f"the column '{name}' is {columns.get(name)}, but according to the spaces it must be {form}"
            )
    if not all(isinstance(agent, str) for agent in data["agents"]):
        raise ValueError("the agents' names must be strings")
    files = tuple(_entry_from_json(entry) for entry in data["files"])
    if len({entry.name for entry in files}) < len(files):
        raise ValueError("a file is listed twice")
    return Manifest(spaces, columns, tuple(data["agents"]), dict(data["about"]), files, digest)


def _entry_to_json(entry: FileEntry) -> dict[str, Any]:
    moments = {
        name: {"count": own.count, "mean": own.mean.tolist(), "squares": own.squares.tolist()}
        for name, own in entry.moments.items()
    }
    return {
        "name": entry.name,
        "rows": entry.rows,
        "steps": entry.steps,
        "bytes": entry.size,
        "sha256": entry.sha256,
        "moments": moments,
        "lengths": entry.lengths.tolist(),
    }


def _entry_from_json(data: Mapping[str, Any]) -> FileEntry:
    name, digest = str(data["name"]), str(data["sha256"])
    if not FILE_NAME.fullmatch(name) or not _SHA256.fullmatch(digest):
        raise ValueError(f"{name!r:.80} with the sha256 {digest!r:.80} is not a valid entry")
    rows, steps, size = (as_count(data[key]) for key in ("rows", "steps", "bytes"))
    if not rows or steps >= rows:
        raise ValueError(f"{name} cannot have {steps} steps in {rows} rows")
    moments = {str(column): Moments.from_state(own) for column, own in data["moments"].items()}
    lengths = np.array([as_count(length) for length in data["lengths"]], np.int64)
    if (len(lengths), int(lengths.sum())) != (rows - steps, steps):
        raise ValueError(f"{name} has {steps} steps in {rows - steps} episodes, but the listed lengths say otherwise")
    return FileEntry(name, rows, steps, size, digest, moments, lengths)


def lengths_of(valid: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the number of steps of each of E episodes in a file, [E], given which rows hold a step, [N]."""
    return np.diff(np.flatnonzero(~valid), prepend=-1) - 1


def moments_of(columns: Columns, forms: Mapping[str, ColumnForm], spaces: SetSpaces) -> dict[str, Moments]:
    """Returns count, mean and sum of squared deviations of each numeric column of a file, by name of the column.

    Moments of observations include final observations; moments of other columns include only steps. There are no
    moments for discrete choices, bits, flags and images, nor for columns whose sums overflow.

    Args:
        columns: Columns of the file.
        forms: Dtypes and shapes of the columns by name, in the order of the manifest.
        spaces: Spaces of observations and actions.
    """
    observed, acted = numeric_parts("obs", spaces.observation), numeric_parts("actions", spaces.action)
    own = column_forms(spaces, {})
    further = [name for name, form in forms.items() if name not in own and form.dtype.kind == "f"]
    moments = {}
    for name in [*observed, *acted, "rewards", *further]:
        if math.prod(forms[name].shape) > MOST_NUMBERS_WITH_MOMENTS:
            continue
        column = columns[name] if name in observed else columns[name][columns["valid"]]
        with np.errstate(over="ignore", invalid="ignore"):
            found = Moments.of(column, 1)
        if np.isfinite(found.squares).all() and np.isfinite(found.mean).all():
            moments[name] = found
    return moments
