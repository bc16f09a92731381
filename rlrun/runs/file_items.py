"""What lies in a run's or a trial's directory, so that somebody who copies it sees what has changed since."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rlrun.checkpoint.manifest import MANIFEST_FILE


@dataclass(frozen=True)
class Item:
    """A file, or a checkpoint: a directory that appears, is replaced and goes as a whole.

    Two items of one name are equal if nothing was written in between.

    Attributes:
        is_checkpoint: Whether it is a checkpoint.
        inode: Number of the file, or of the checkpoint's manifest, on its file system.
        size: Length of that file in bytes.
        changed_ns: When it was last written.
    """

    is_checkpoint: bool
    inode: int
    size: int
    changed_ns: int


def items_of(directory: Path) -> dict[str, Item]:
    """Returns everything in a directory by its path inside, in the order of the names.

    Left out is what belongs to this machine only: locks, interrupted writes and whatever else begins with a dot, and
    links. What goes away in the meantime is left out as well.
    """
    found: dict[str, Item] = {}
    _collect(directory, "", found)
    return found


def item_of(file: Path) -> Item:
    """Returns a file as `items_of` does.

    Raises:
        FileNotFoundError: If it is not there.
    """
    return _item(file.stat(), is_checkpoint=False)


def files_of_checkpoint(directory: Path) -> list[str]:
    """Returns the files of a checkpoint by their paths inside it, its manifest last."""
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
            _collect(path, f"{name}/", found)  # a folder that is no checkpoint, or a file that is gone


def _item(status: os.stat_result, is_checkpoint: bool) -> Item:
    return Item(is_checkpoint, status.st_ino, status.st_size, status.st_mtime_ns)
