"""Listing of the files and checkpoints in a run's or trial's directory, to find changes since the last copy."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rlrun.engine.checkpoint.manifest import MANIFEST_FILE


@dataclass(frozen=True)
class Item:
    """A file, or a checkpoint as one unit, in a directory listing.

    A checkpoint is created, replaced and removed as a whole. Items with the same name in two
    listings are equal if nothing was written between the listings.

    Attributes:
        is_checkpoint: Whether the item is a checkpoint.
        inode: Inode number of the file, or of the checkpoint's manifest.
        size: Size of the file, or of the manifest, in bytes.
        changed_ns: Time of the last modification.
    """

    is_checkpoint: bool
    inode: int
    size: int
    changed_ns: int


def items_of(directory: Path) -> dict[str, Item]:
    """Lists all items (files and checkpoints) in a directory by relative path, sorted by name.

    Names that begin with a dot (locks, interrupted writes) and links are skipped, since they belong to this machine
    only. Items that are removed during the listing are skipped too.
    """
    found: dict[str, Item] = {}
    _collect(directory, "", found)
    return found


def item_of(file: Path) -> Item:
    """Creates the entry for one file in a directory listing.

    Raises:
        FileNotFoundError: The file does not exist.
    """
    return _item(file.stat(), is_checkpoint=False)


def files_of_checkpoint(directory: Path) -> list[str]:
    """Lists the files of a checkpoint by relative path, the manifest last."""
    files = sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
    return [*(name for name in files if name != MANIFEST_FILE), MANIFEST_FILE]


def _collect(directory: Path, prefix: str, found: dict[str, Item]) -> None:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.is_symlink():
            continue
        name, path = f"{prefix}{entry.name}", Path(entry.path)
        try:
            found[name] = _item(path.stat() if entry.is_file() else (path / MANIFEST_FILE).stat(), entry.is_dir())
        except FileNotFoundError:
            _collect(path, f"{name}/", found)  # it is a folder but not a checkpoint, or has been removed


def _item(status: os.stat_result, is_checkpoint: bool) -> Item:
    return Item(is_checkpoint, status.st_ino, status.st_size, status.st_mtime_ns)
