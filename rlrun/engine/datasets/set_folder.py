"""Folders of data sets, on this machine or elsewhere, as places to read columns from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from typing_extensions import override

from rlrun.engine.datasets.arrow_file import mapped_columns
from rlrun.engine.datasets.layout import Columns
from rlrun.engine.datasets.manifest import FileEntry, Manifest, read_manifest, require_files
from rlrun.engine.messages.errors import DataSetError


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

    def checked_columns(self, entry: FileEntry) -> Columns:
        """Columns of a file that is compared with its size and digest in the manifest first.

        Raises:
            DataSetError: The file cannot be read, or differs from the manifest.
        """

    def names(self) -> Iterable[str]:
        """Names of all that is in the folder, whether it is of the set or not."""

    def release(self, entry: FileEntry) -> None:
        """Removes this machine's copy of a file, if it has one; columns that were read stay usable."""


class LocalFolder(SetFolder):
    """Folder of a data set on this machine, whose files are read where they are.

    Args:
        path: The folder.

    Raises:
        DataSetError: The folder is no data set.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = read_manifest(path)

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
    def checked_columns(self, entry: FileEntry) -> Columns:
        path = self.path / entry.name
        require_files(self.path, [entry])
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256:
                raise DataSetError(f"{path} was altered: it has another sha256 than by the manifest")
        return self.columns(entry)

    @override
    def names(self) -> Iterable[str]:
        return [path.name for path in self.path.iterdir()]

    @override
    def release(self, entry: FileEntry) -> None:
        pass


def complete_folder(path: Path) -> LocalFolder:
    """Folder of a data set on this machine, all of whose files are there.

    Raises:
        DataSetError: The folder is no data set, or a file is missing or has another size. Digests are compared by
            `rlrun dataset check` only.
    """
    found = LocalFolder(path)
    require_files(path, found.manifest.files)
    return found
