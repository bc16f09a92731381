"""Folders of data sets, on this machine or elsewhere, as places to read columns from."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from typing_extensions import override

from rlrun.datasets.arrow_file import mapped_columns
from rlrun.datasets.layout import Columns
from rlrun.datasets.manifest import FileEntry, Manifest, demand_files, read_manifest


class SetFolder(Protocol):
    """Folder of a data set. As a text it is the place that messages name."""

    manifest: Manifest
    """The manifest, as it was when the set was opened."""

    @property
    def limit_bytes(self) -> int | None:
        """Bytes of the set that this machine may keep a copy of; None if it reads the set where it is."""

    def columns(self, entry: FileEntry) -> Columns:
        """Columns of a file by name, [N, ...], as read-only views of memory that is mapped.

        Raises:
            DataSetError: The file cannot be read, or differs from the manifest.
        """

    def release(self, entry: FileEntry) -> None:
        """Removes this machine's copy of a file, if it has one; columns that were read stay usable."""


class LocalFolder(SetFolder):
    """Folder of a data set on this machine, whose files are read where they are.

    Args:
        path: The folder.

    Raises:
        DataSetError: The folder is no data set, or a file is missing or has another size. Digests are compared by
            `rlrun dataset check` only.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = read_manifest(path)
        demand_files(path, self.manifest.files)

    @override
    def __str__(self) -> str:
        return str(self.path)

    @property
    @override
    def limit_bytes(self) -> None:
        return None

    @override
    def columns(self, entry: FileEntry) -> Columns:
        return mapped_columns(self.path / entry.name, self.manifest.columns, entry.rows)

    @override
    def release(self, entry: FileEntry) -> None:
        pass
