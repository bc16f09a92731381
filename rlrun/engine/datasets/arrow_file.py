"""Files of a data set: each holds one uncompressed Arrow record batch (IPC format) and is read by memory mapping.

An entry that consists of several numbers is stored as a list of fixed size; the manifest holds its shape. Booleans are
stored as bytes, since NumPy arrays cannot view Arrow's packed bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.datasets.layout import ColumnForm, Columns
from rlrun.engine.messages.errors import DataSetError


class _Pieces:
    """In-memory file of chunks; the chunks of columns are not copied."""

    closed = False

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, piece: bytes) -> int:
        self.pieces.append(piece)
        return len(piece)

    def flush(self) -> None: ...

    def close(self) -> None: ...


def file_pieces(columns: Mapping[str, NDArray[Any]], forms: Mapping[str, ColumnForm]) -> list[bytes]:
    """Serializes columns of N rows, [N, ...], to the bytes of a file, in a list of chunks.

    Equal columns give equal bytes.
    """
    import pyarrow as pa

    batch = arrow_batch(columns, forms)
    sink = _Pieces()
    with pa.ipc.new_file(pa.PythonFile(sink, "w"), batch.schema) as writer:
        writer.write_batch(batch)
    return sink.pieces


def arrow_batch(columns: Mapping[str, NDArray[Any]], forms: Mapping[str, ColumnForm]) -> Any:
    """Converts columns of N rows, [N, ...], to an Arrow record batch."""
    import pyarrow as pa

    return pa.record_batch([_to_arrow(columns[name], form) for name, form in forms.items()], schema=_schema(forms))


def mapped_columns(path: Path, forms: Mapping[str, ColumnForm], rows: int) -> Columns:
    """Returns the columns [N, ...] of a file as memory-mapped arrays, without reading them.

    Args:
        path: The file.
        forms: Expected columns: dtype and shape by name.
        rows: Expected number of rows, N.

    Raises:
        DataSetError: The file cannot be read, or has different columns or rows.
    """
    import pyarrow as pa

    try:
        with pa.ipc.open_file(_mapping(path)) as reader:
            if reader.schema != _schema(forms):
                raise DataSetError(f"{path}: {_difference(reader.schema, _schema(forms))}")
            batch = reader.get_batch(0)
            if reader.num_record_batches != 1 or batch.num_rows != rows:
                raise DataSetError(f"{path} has {batch.num_rows} rows, but the manifest lists {rows}")
            batch.validate()
            return {name: _to_numpy(batch.column(name), form) for name, form in forms.items()}
    except (pa.ArrowException, OSError, ValueError, IndexError) as error:
        raise DataSetError(f"cannot read {path}: {error}") from error


def _mapping(path: Path) -> Any:
    """Returns a buffer of a whole file that is mapped into memory.

    When Arrow reads from a mapped file, it advises the system that the whole record batch is needed soon, so opening a
    data set would read all of its files from disk. When Arrow reads from a buffer, it gives no such advice.
    """
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        first = source.read_buffer(1)
        return pa.foreign_buffer(first.address, source.size(), base=first)


def _schema(forms: Mapping[str, ColumnForm]) -> Any:
    import pyarrow as pa

    return pa.schema([pa.field(name, _arrow_type(form), nullable=False) for name, form in forms.items()])


def _arrow_type(form: ColumnForm) -> Any:
    import pyarrow as pa

    number = pa.from_numpy_dtype(_stored(form.dtype))
    item = pa.field("item", number, nullable=False)
    return pa.list_(item, math.prod(form.shape)) if form.shape else number


def _stored(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.uint8) if dtype == np.bool_ else dtype


def _to_arrow(column: NDArray[Any], form: ColumnForm) -> Any:
    import pyarrow as pa

    stored = np.ascontiguousarray(column).view(_stored(form.dtype))
    # The array is created from the buffer, since `pa.array` imports pandas if it is installed.
    numbers = pa.Array.from_buffers(pa.from_numpy_dtype(stored.dtype), stored.size, [None, pa.py_buffer(stored)])
    return pa.FixedSizeListArray.from_arrays(numbers, type=_arrow_type(form)) if form.shape else numbers


def _to_numpy(column: Any, form: ColumnForm) -> NDArray[Any]:
    numbers = column.flatten() if form.shape else column
    flat: NDArray[Any] = numbers.to_numpy(zero_copy_only=True)
    return flat.view(form.dtype).reshape(len(column), *form.shape)


def _difference(found: Any, expected: Any) -> str:
    names = dict.fromkeys([*expected.names, *found.names])
    for name in names:
        own, other = (schema.field(name).type if name in schema.names else "none" for schema in (expected, found))
        if own != other:
            return f"its column '{name}' is {other}, but the manifest lists {own}"
    return f"its columns are {', '.join(found.names)}, but the manifest lists {', '.join(expected.names)}"
