"""Access to files in remote storage by URI, through any file system that pyarrow supports."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from rlrun.engine.checkpoint.durable import partial_name
from rlrun.engine.messages.errors import UsageError

PIECE_BYTES = 8 * 2**20
"""Size of the pieces in which files are read and written."""


def is_uri(path: str) -> bool:
    """Whether a path is a URI, such as ``s3://bucket/runs``."""
    return "://" in path


def file_system(uri: str) -> tuple[Any, str]:
    """Returns the file system object for a path or URI, and the path within that file system.

    Raises:
        UsageError: There is no such storage.
    """
    from pyarrow.fs import FileSystem

    try:
        files, path = FileSystem.from_uri(uri if is_uri(uri) else os.path.abspath(uri))
    except (OSError, ValueError) as error:
        raise UsageError(f"storage {uri}: {error}") from error
    return files, str(path).rstrip("/")


def read_chunks(files: Any, path: str) -> Iterator[bytes]:
    """Yields the content of a file in a file system in chunks of bytes.

    Raises:
        OSError: The file cannot be read.
    """
    with files.open_input_stream(path) as stream:
        while piece := stream.read(PIECE_BYTES):
            yield piece


def write_chunks(files: Any, path: str, pieces: Iterable[bytes], confirm: Callable[[], object] = lambda: None) -> None:
    """Writes a file in a file system atomically: by a rename, unless the storage's own writes are atomic.

    Args:
        files: The file system.
        path: Path of the file; an existing one is replaced.
        pieces: Chunks of the file's content.
        confirm: Function called before the file is opened, and again right before it appears; raises an error to
            cancel the write.

    Raises:
        OSError: The file cannot be written.
    """
    confirm()
    renames = files.type_name in ("local", "hdfs")
    target = str(partial_name(Path(path))) if renames else path
    if renames:
        files.create_dir(os.path.dirname(path), recursive=True)
    with files.open_output_stream(target) as stream:
        for piece in pieces:
            stream.write(piece)
        confirm()  # an object becomes visible when its stream is closed
    if renames:
        confirm()
        files.move(target, path)
