"""Folders of data sets in remote storage such as S3, accessed through pyarrow's file systems."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from typing_extensions import override

from rlrun.engine.checkpoint.file_systems import file_system, read_chunks
from rlrun.engine.datasets.arrow_file import mapped_columns
from rlrun.engine.datasets.data_cache import CachedSet, limit_bytes
from rlrun.engine.datasets.layout import Columns
from rlrun.engine.datasets.manifest import MANIFEST_FILE, FileEntry, parsed_manifest
from rlrun.engine.datasets.set_folder import SetFolder
from rlrun.engine.messages.errors import DataSetError, UsageError


class RemoteFolder(SetFolder):
    """Folder of a data set in remote storage; each file is copied to this machine's cache on first use.

    Args:
        place: URI of the folder without query options, for messages.
        files: The storage, as a file system of pyarrow.
        root: Path of the folder in the file system.
        manifest: Content of the manifest file.

    Raises:
        DataSetError: The manifest is malformed.
    """

    def __init__(self, place: str, files: Any, root: str, manifest: bytes) -> None:
        self._place = place
        self._files = files
        self._root = root
        self.manifest = parsed_manifest(manifest, place)

    @override
    def __str__(self) -> str:
        return self._place

    @cached_property
    @override
    def limit_bytes(self) -> int:
        return limit_bytes()

    @cached_property
    def _cached(self) -> CachedSet:
        return CachedSet(self.manifest.digest)

    @override
    def columns(self, entry: FileEntry) -> Columns:
        with self._cached.file(entry, self._pieces(entry)) as path:
            return mapped_columns(path, self.manifest.columns, entry.rows)

    @override
    def checked_columns(self, entry: FileEntry) -> Columns:
        self.release(entry)  # forces a new copy, since a file is verified while it is copied
        return self.columns(entry)

    @override
    def names(self) -> Iterable[str]:
        from pyarrow.fs import FileSelector

        return [found.base_name for found in self._files.get_file_info(FileSelector(self._root))]

    @override
    def release(self, entry: FileEntry) -> None:
        self._cached.release(entry)

    def _pieces(self, entry: FileEntry) -> Iterator[bytes]:
        """Yields a file in chunks.

        Raises:
            DataSetError: The file cannot be read, or is not the one in the manifest.
        """
        place, digest = f"{self._place}/{entry.name}", hashlib.sha256()
        try:
            for piece in read_chunks(self._files, f"{self._root}/{entry.name}"):
                digest.update(piece)
                yield piece
        except OSError as error:
            raise DataSetError(f"{place} is missing or unreadable: {error}") from error
        if digest.hexdigest() != entry.sha256:
            raise DataSetError(f"{place} was altered: its sha256 differs from the manifest")


def remote_folder(uri: str) -> RemoteFolder | None:
    """Opens the folder of a data set in remote storage; returns None if there is no data set.

    Raises:
        UsageError: There is no such storage, or it cannot be reached.
        DataSetError: The manifest is malformed.
    """
    files, root = file_system(uri)
    place = uri.partition("?")[0].rstrip("/")
    try:
        manifest = b"".join(read_chunks(files, f"{root}/{MANIFEST_FILE}"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"cannot read storage {place}: {error}") from error
    return RemoteFolder(place, files, root, manifest)
