"""Checks a data set: file digests, alignment of episodes, values outside their spaces, gaps and duplicates."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.checkpoint.durable import is_leftover
from rlrun.engine.data.space_kinds import known_kind, space_tree
from rlrun.engine.data.tree import named_leaves
from rlrun.engine.datasets.layout import Columns, episode_rows
from rlrun.engine.datasets.manifest import MANIFEST_FILE, FileEntry, Manifest, lengths_of
from rlrun.engine.datasets.set_folder import LocalFolder, SetFolder
from rlrun.engine.messages.errors import DataSetError

IGNORED = frozenset({MANIFEST_FILE, ".DS_Store"})

USUAL_SCALE = (1e-2, 1e2)
"""Range of the standard deviation of rewards for which value functions learn without rescaling."""


@dataclass(frozen=True)
class DataFinding:
    """Finding from the check of a data set: a problem or a note.

    Attributes:
        place: File of the data set, and the episode and row in the file if known; "" for the whole set.
        text: Description of the problem or note.
        is_wrong: Whether the problem prevents learning from the set; if not, the finding is a note.
    """

    place: str
    text: str
    is_wrong: bool = True


def check_set(folder: Path | SetFolder) -> list[DataFinding]:
    """Checks every file, digest and row of a data set, and returns the findings.

    Args:
        folder: Folder of the data set: an opened folder, or a path on this machine.

    Raises:
        DataSetError: The folder is not a data set, or its manifest is malformed.
    """
    place = LocalFolder(folder) if isinstance(folder, Path) else folder
    manifest, limit = place.manifest, place.limit_bytes
    is_kept = limit is None or sum(entry.size for entry in manifest.files) <= limit
    findings = list(_foreign_files(place))
    across = AcrossFiles()
    for entry in manifest.files:
        try:
            columns = place.checked_columns(entry)
        except DataSetError as error:
            findings.append(DataFinding(entry.name, str(error)))
            across.skip()
            continue
        findings += _in_file(entry, columns, manifest)
        findings += across.compare(entry, columns)
        if not is_kept:
            place.release(entry)
    return findings + list(_scale(manifest))


def _foreign_files(folder: SetFolder) -> Iterator[DataFinding]:
    known = IGNORED | {entry.name for entry in folder.manifest.files}
    for name in sorted(folder.names()):
        if is_leftover(Path(name)):
            yield DataFinding(name, "is left over from an interrupted write; remove it", is_wrong=False)
        elif name not in known:
            yield DataFinding(name, "does not belong to the data set: it is not in the manifest")


def _in_file(entry: FileEntry, columns: Columns, manifest: Manifest) -> Iterator[DataFinding]:
    """Yields the findings within a file: the first row and the number of rows of each kind of mistake."""
    valid = columns["valid"]
    for text, rows in (*_misaligned(columns), *_bad_numbers(columns, manifest)):
        if rows.any():
            row, number = int(rows.argmax()), int(rows.sum())
            others = f", and {number - 1:,} more such row{'s' * (number > 2)} in the file" if number > 1 else ""
            yield DataFinding(f"{entry.name}: episode {columns['episode'][row]}, row {row}", f"{text}{others}")
    if int(valid.sum()) != entry.steps:
        yield DataFinding(entry.name, f"it has {valid.sum():,} steps, but the manifest lists {entry.steps:,}")
    if not np.array_equal(entry.lengths, lengths_of(valid)):
        yield DataFinding(entry.name, "the lengths of its episodes differ from the manifest")
    ends = columns["terminateds"] | columns["truncateds"]
    cut = int((valid[:-1] & ~valid[1:] & ~ends[:-1]).sum())
    if cut:
        text = (
            f"{cut:,} of {entry.episodes:,} episodes are cut off: the last step is neither terminated nor "
            "truncated, so it is bootstrapped"
        )
        yield DataFinding(entry.name, text, is_wrong=False)


def _misaligned(columns: Columns) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yields each kind of misalignment with the mask of its rows, [N]."""
    valid, ends = columns["valid"], columns["terminateds"] | columns["truncateds"]
    follows, episode = np.append(valid[1:], False), columns["episode"]
    yield "an episode has a final observation but no step", ~valid & ~np.insert(valid[:-1], 0, False)
    yield "the file ends within an episode, without its final observation", _last(valid) & valid
    yield (
        "a step that ends the episode is followed by another step: flags are misaligned with steps",
        ends & valid & follows,
    )
    yield "a final observation has the flags of a step: flags are misaligned with steps", ends & ~valid
    begins = np.insert(~valid[:-1], 0, True)
    yield "the episode number changes within an episode", np.insert(np.diff(episode) != 0, 0, False) & ~begins


def _last(valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = np.arange(len(valid)) == len(valid) - 1
    return mask


def _bad_numbers(columns: Columns, manifest: Manifest) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yields each kind of invalid number (not finite, or outside its space) with the mask of its rows, [N]."""
    for name, column in columns.items():
        if column.dtype.kind == "f":
            yield f"'{name}' contains NaN or infinite numbers", _any(~np.isfinite(column))
    valid, spaces = columns["valid"], manifest.spaces
    for prefix, space in (("obs", spaces.observation), ("actions", spaces.action)):
        for name, part in named_leaves(space_tree(space), prefix):
            # Observations outside the bounds of a Box are common, because of rounding errors or rare states.
            if prefix == "actions" or known_kind(part).meaning != "numbers":
                outside = _outside(columns[name], part)
                yield f"'{name}' is outside {part}", outside & valid if prefix == "actions" else outside
    yield "'agent' is not a valid index into the manifest's list of agents", _no_agent(columns["agent"], manifest)


def _outside(column: NDArray[Any], space: Any) -> NDArray[np.bool_]:
    low, high = known_kind(space).bounds(space)
    return _any((column < low) | (column > high))


def _any(marks: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether any number of an entry is marked, [N]."""
    mask: NDArray[np.bool_] = np.asarray(marks.reshape(len(marks), -1).any(axis=1))
    return mask


def _no_agent(agents: NDArray[Any], manifest: Manifest) -> NDArray[np.bool_]:
    wrong: NDArray[np.bool_] = (agents < 0) | (agents >= len(manifest.agents))
    return wrong


class AcrossFiles:
    """Search across all files of a data set for gaps in the numbering of episodes, and for duplicate episodes."""

    def __init__(self) -> None:
        self._next: int | None = 0
        self._seen: set[int] = set()
        self._contents: dict[bytes, str] = {}

    def skip(self) -> None:
        """Records that a file was skipped because it cannot be read."""
        self._next = None

    def compare(self, entry: FileEntry, columns: Columns) -> Iterator[DataFinding]:
        """Yields a finding for each gap in a file's episode numbers, and for each repeated number or episode.

        Args:
            entry: The file's entry in the manifest.
            columns: Columns of the file.
        """
        content = [column for name, column in columns.items() if name.partition("/")[0] in ("obs", "actions")]
        for start, end in episode_rows(columns["valid"]):
            number, place = int(columns["episode"][start]), f"{entry.name}: episode {columns['episode'][start]}"
            if number in self._seen:
                yield DataFinding(f"{place}, row {start}", "another episode has this number")
            elif self._next is not None and number != self._next:
                yield DataFinding(f"{place}, row {start}", f"a gap: expected episode {self._next}")
            self._seen.add(number)
            self._next = number + 1
            digest = hashlib.sha1(usedforsecurity=False)
            for column in content:
                digest.update(column[start : end + 1].tobytes())
            seed = int(columns["seed"][start])
            key = digest.digest() + seed.to_bytes(8, "little", signed=True)
            if (earlier := self._contents.setdefault(key, place)) != place:
                text = f"contains the same observations and actions as {earlier}"
                yield DataFinding(f"{place}, row {start}", text, is_wrong=seed >= 0)


def _scale(manifest: Manifest) -> Iterator[DataFinding]:
    """Yields a note if the rewards' scale is unusual."""
    moments = manifest.moments().get("rewards")
    if moments is None:
        return
    deviation = float(np.sqrt(moments.squares / max(moments.count, 1)))
    if deviation == 0:
        yield DataFinding("", f"all rewards are {float(moments.mean):g}", is_wrong=False)
    elif not USUAL_SCALE[0] <= deviation <= USUAL_SCALE[1]:
        text = f"rewards have a standard deviation of {deviation:.3g}: scale them for algorithms with value functions"
        yield DataFinding("", text, is_wrong=False)
