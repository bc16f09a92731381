"""Folders of data sets, local or remote, from which columns are read."""

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
    """Interface to the folder of a data set, local or remote; `str()` gives its path or URI for messages."""

    manifest: Manifest
    """The manifest, as it was when the set was opened."""

    @property
    def limit_bytes(self) -> int | None:
        """Maximum size in bytes of the local copies of the set's files; None if the files are read in place."""

    def columns(self, entry: FileEntry) -> Columns:
        """Returns the columns [N, ...] of a file by name, as read-only views of mapped memory.

        Raises:
            DataSetError: The file cannot be read, or differs from the manifest.
        """

    def checked_columns(self, entry: FileEntry) -> Columns:
        """Returns the columns of a file by name, after comparing the file's size and digest with the manifest.

        Raises:
            DataSetError: The file cannot be read, or differs from the manifest.
        """

    def names(self) -> Iterable[str]:
        """Returns the names of all entries in the folder, including files that do not belong to the data set."""

    def release(self, entry: FileEntry) -> None:
        """Removes the local copy of a remote file, if there is one; columns already read remain usable."""


class LocalFolder(SetFolder):
    """Folder of a data set on this machine, whose files are read in place.

    Args:
        path: The folder.

    Raises:
        DataSetError: The folder is not a data set.
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
                raise DataSetError(f"{path} was altered: its sha256 differs from the manifest")
        return self.columns(entry)

    @override
    def names(self) -> Iterable[str]:
        return [path.name for path in self.path.iterdir()]

    @override
    def release(self, entry: FileEntry) -> None:
        pass


def complete_folder(path: Path) -> LocalFolder:
    """Opens the folder of a data set on this machine, after checking that all files exist.

    Raises:
        DataSetError: The folder is not a data set, or a file is missing or has a different size. Digests are not
            compared; `rlrun dataset check` does that.
    """
    found = LocalFolder(path)
    require_files(path, found.manifest.files)
    return found
