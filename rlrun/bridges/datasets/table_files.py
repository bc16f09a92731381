"""Tables in files: CSV and Parquet files, demonstration files, and RLlib's JSON.

The files hold only numbers and strings; nothing in them is executed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.checkpoint.plain_json import load_json
from rlrun.engine.data.demonstrations import load_demonstrations
from rlrun.engine.datasets.arrow_file import arrow_batch
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.input_sets import demonstrations_of
from rlrun.engine.datasets.layout import LOGP, Columns, SetSpaces
from rlrun.engine.messages.errors import UsageError

_METADATA = b"rlrun"
"""Key of a Parquet file's metadata under which its spaces, agents and notes are stored."""

_PACKED = """{path}: line {line} has packed columns ({names}). rlrun does not read them, because they contain pickles,
which can run code. Unpack them with the RLlib version that wrote them:

    from ray.rllib.offline.json_reader import JsonReader
    from ray.rllib.offline.json_writer import JsonWriter
    writer = JsonWriter("unpacked", compress_columns=[])
    for batch in JsonReader("{path}").read_all_files():
        writer.write(batch)

and then convert the folder `unpacked`."""

RLLIB_NAMES = {
    "new_obs": "next_obs",
    "dones": "terminateds",
    "eps_id": "episode",
    "agent_index": "agent",
    "action_logp": LOGP,
}
"""Column names of RLlib's sample batches -> rlrun's, where they differ."""


def read_spaces(path: Path) -> SetSpaces:
    """Loads spaces from a JSON file: the manifest of a data set, or an object with `observation` and `action`.

    Raises:
        UsageError: The file cannot be read, or does not describe spaces.
    """
    try:
        data = load_json(path.read_bytes())
        own = data.get("spaces", data)
        return SetSpaces.from_json(own)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (KeyError, AttributeError) as error:
        raise UsageError(f"{path} has no spaces: it needs `observation` and `action`") from error
    except ValueError as error:
        raise UsageError(f"{path} has no valid spaces: {error}") from error


def read_csv(path: Path) -> Columns:
    """Loads a CSV file whose first line names its columns.

    Raises:
        UsageError: The file is not a CSV file.
    """
    import pyarrow as pa
    import pyarrow.csv

    try:
        return _columns_of(pyarrow.csv.read_csv(path))
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} is not a CSV file: {error}") from error


def write_csv(found: DataSet, path: Path) -> None:
    """Writes a data set to a CSV file, with a separate column for each number."""
    import pyarrow as pa
    import pyarrow.csv

    writer = None
    for columns in found.files():
        flat = _numbered(columns)
        batch = pa.record_batch(list(flat.values()), names=list(flat))
        writer = writer or pyarrow.csv.CSVWriter(path, batch.schema)
        writer.write_batch(batch)
    if writer is not None:
        writer.close()


def _numbered(columns: Columns) -> Columns:
    """Splits columns of several numbers: obs [N, 2] becomes obs[0] and obs[1]."""
    flat: Columns = {}
    for name, column in columns.items():
        rows = column.reshape(len(column), -1)
        rows = rows.astype(np.uint8) if column.dtype == np.bool_ else rows
        flat |= {name if column.ndim == 1 else f"{name}[{i}]": rows[:, i].copy() for i in range(rows.shape[1])}
    return flat


def read_parquet(path: Path) -> tuple[Columns, Mapping[str, Any]]:
    """Loads a Parquet file: its columns, and the entries `spaces`, `agents` and `about` stored by `write_parquet`.

    Raises:
        UsageError: The file is not a Parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
        stored = load_json((table.schema.metadata or {}).get(_METADATA, b"{}"))
        if "spaces" in stored:
            stored["spaces"] = SetSpaces.from_json(stored["spaces"])
        return _columns_of(table), stored
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"cannot read {path} as a Parquet file: {error}") from error


def write_parquet(found: DataSet, path: Path) -> None:
    """Writes a data set to a Parquet file, with its spaces, agents and notes in the file's metadata."""
    import pyarrow.parquet

    manifest = found.manifest
    stored = json.dumps({"spaces": manifest.spaces.to_json(), "agents": manifest.agents, "about": manifest.about})
    writer = None
    for columns in found.files():
        batch = arrow_batch(columns, manifest.columns)
        schema = batch.schema.with_metadata({_METADATA: stored.encode()})
        writer = writer or pyarrow.parquet.ParquetWriter(path, schema)
        writer.write_batch(batch.replace_schema_metadata(schema.metadata))
    if writer is not None:
        writer.close()


def _columns_of(table: Any) -> Columns:
    """Columns of an Arrow table as arrays; lists of equal length become [N, K]."""
    return {name: _array_of(table.column(name)) for name in table.column_names}


def _array_of(column: Any) -> NDArray[Any]:
    array: NDArray[Any] = column.to_numpy()
    return np.stack(list(array)) if len(array) and isinstance(array[0], np.ndarray) else array


def read_npz(path: Path) -> Columns:
    """Loads the columns of a demonstration file (npz).

    Raises:
        UsageError: The file does not hold demonstrations.
    """
    found = load_demonstrations(str(path))
    obs = {f"obs/{part}" if part else "obs": leaf for part, leaf in found.observations.items()}
    return {**obs, **found.columns}


def write_npz(found: DataSet, path: Path) -> None:
    """Writes a data set to a demonstration file (npz), which omits seeds, agents, versions and additional columns.

    Raises:
        UsageError: The set has no steps, or has nested actions.
    """
    demonstrations_of(found).save(path)


def read_rllib_json(path: Path) -> Columns:
    """Loads sample batches from one file written by RLlib's JSON writer, or from all such files in a folder.

    Raises:
        UsageError: A file does not hold sample batches, or holds packed columns or the batches of several policies.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    batches = [batch for file in files for batch in _rllib_batches(file)]
    if not batches:
        raise UsageError(f"{path} contains no RLlib sample batches")
    names = [name for name in batches[0] if all(name in batch for batch in batches)]
    try:
        table = {RLLIB_NAMES.get(name, name): np.concatenate([batch[name] for batch in batches]) for name in names}
    except ValueError as error:
        raise UsageError(f"{path}: the batches do not match each other: {error}") from error
    if "terminateds" in names:  # takes precedence over `dones`, which newer batches may also have
        table["terminateds"] = np.concatenate([batch["terminateds"] for batch in batches])
    return table


def _rllib_batches(path: Path) -> Iterator[dict[str, NDArray[Any]]]:
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            data = load_json(line)
            kind = data.pop("type")
            if kind == "MultiAgentBatch":
                if len(data["policy_batches"]) != 1:
                    raise ValueError(f"must have batches of one policy, not of {', '.join(data['policy_batches'])}")
                (data,) = data["policy_batches"].values()
            elif kind != "SampleBatch":
                raise ValueError(f"type {kind!r:.80}")
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise UsageError(f"{path}: line {number} is not an RLlib sample batch: {error}") from error
        if packed := [name for name, column in data.items() if isinstance(column, str)]:
            raise UsageError(_PACKED.format(path=path, line=number, names=", ".join(packed)))
        numbers = {str(name): np.asarray(column) for name, column in data.items() if _is_numeric(column)}
        yield {name: column for name, column in numbers.items() if column.ndim}


def _is_numeric(column: Any) -> bool:
    """Whether a list holds numbers, nested evenly; infos and empty lists do not."""
    while isinstance(column, list) and column:
        column = column[0]
    return isinstance(column, bool | int | float)
