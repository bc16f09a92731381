"""Reads data sets: memory-mapped columns, rows by index, episode bounds, means and variances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.layout import Columns, as_tree
from rlrun.engine.datasets.manifest import Manifest, lengths_of
from rlrun.engine.datasets.set_folder import SetFolder, complete_folder
from rlrun.engine.functional.moments import Moments

Indices = NDArray[np.int64]


class EpisodeBounds(NamedTuple):
    """Bounds of the E episodes of a data set, in the order of its rows.

    Attributes:
        starts: Row of each episode's first step, [E].
        lengths: Number of steps of each episode, [E]; its final observation is in row `starts + lengths`.
    """

    starts: Indices
    lengths: Indices


@dataclass(frozen=True)
class _ReadFile:
    """Columns of a file, [N, ...], and the values computed from them."""

    columns: Columns

    @cached_property
    def lengths(self) -> Indices:
        """Number of steps of each episode, [E]."""
        return lengths_of(self.columns["valid"])


class DataSet:
    """Data set of recorded experience, opened for reading.

    Rows are numbered from 0 across all files. The row after a step holds the step's next observation, since an
    episode's rows are consecutive and its final observation has a separate row.

    Args:
        folder: Folder of the data set: an opened folder, or a path on this machine.
        manifest: Manifest of the files to read; None for the whole set.

    Attributes:
        folder: Folder of the data set.
        manifest: The manifest.

    Raises:
        DataSetError: The folder is not a data set, or a file is missing or has a different size.
    """

    def __init__(self, folder: Path | SetFolder, manifest: Manifest | None = None) -> None:
        self.folder = complete_folder(folder) if isinstance(folder, Path) else folder
        self.manifest = manifest or self.folder.manifest
        self._file_ends = np.cumsum([entry.rows for entry in self.manifest.files], dtype=np.int64)
        self._read: dict[str, _ReadFile] = {}

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """Gymnasium space of the data set's observations."""
        return self.manifest.spaces.observation

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """Gymnasium space of the data set's actions, as the env's `step` takes them."""
        return self.manifest.spaces.action

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents; the column `agent` refers to them by index."""
        return self.manifest.agents

    @property
    def digest(self) -> str:
        """SHA-256 digest of the manifest, which identifies the whole set."""
        return self.manifest.digest

    @property
    def num_rows(self) -> int:
        """Number of rows in the data set: steps, and one final observation per episode."""
        return int(self._file_ends[-1]) if len(self._file_ends) else 0

    @property
    def num_steps(self) -> int:
        """Number of env steps in the data set, without the rows of final observations."""
        return sum(entry.steps for entry in self.manifest.files)

    @property
    def num_episodes(self) -> int:
        """Number of episodes in the data set, including those whose recording was cut off."""
        return self.num_rows - self.num_steps

    @property
    def blocks_at_once(self) -> int | None:
        """Number of files of the data set that this machine's cache can hold at a time; None if there is no limit."""
        limit, sizes = self.folder.limit_bytes, sorted((entry.size for entry in self.manifest.files), reverse=True)
        if limit is None or sum(sizes) <= limit or len(sizes) == 1:
            return None
        return max(int(np.cumsum(sizes).searchsorted(limit, side="right")), 1)

    def part(self, numbers: Sequence[int]) -> DataSet:
        """Returns a data set of some of this set's files, in the given order.

        The two data sets share the files already in memory.
        """
        found = DataSet(self.folder, replace(self.manifest, files=tuple(self.manifest.files[i] for i in numbers)))
        found._read = self._read
        return found

    def file(self, number: int) -> Columns:
        """Returns the columns [N, ...] of a file by name, as read-only views of the memory-mapped file.

        Raises:
            DataSetError: The file cannot be read, or differs from the manifest.
        """
        return self._file(number).columns

    def _file(self, number: int) -> _ReadFile:
        entry = self.manifest.files[number]
        if entry.name not in self._read:  # files read so far stay mapped, which needs no file descriptor
            self._read[entry.name] = _ReadFile(self.folder.columns(entry))
        return self._read[entry.name]

    def release(self, number: int) -> None:
        """Drops a file from memory and, if the set is remote, removes the file's copy from this machine's cache."""
        entry = self.manifest.files[number]
        self._read.pop(entry.name, None)
        self.folder.release(entry)

    def files(self) -> Iterator[Columns]:
        """Yields the columns of each file of the data set in order.

        If the set is remote and too large for the cache, the local copy of each file is removed afterwards.
        """
        is_kept = self.blocks_at_once is None
        for number in range(len(self.manifest.files)):
            yield self.file(number)
            if not is_kept:
                self.release(number)

    def rows(self, indices: Indices, names: Sequence[str] | None = None) -> SampleBatch:
        """Returns the rows with the given numbers, copied into a batch of new arrays [N, ...] in the dtypes of the set.

        Args:
            indices: Row numbers in any order, [N].
            names: Columns of the batch, such as `obs` and `actions`; None for all.

        Raises:
            IndexError: A row number is out of range.
            DataSetError: A file cannot be read, or differs from the manifest.
        """
        if len(indices) and not 0 <= indices.min() <= indices.max() < self.num_rows:
            raise IndexError(
                f"rows {indices.min()} to {indices.max()} are out of range: the data set has {self.num_rows} rows"
            )
        leaves = {
            name: np.empty((len(indices), *form.shape), form.dtype)
            for name, form in self.manifest.columns.items()
            if names is None or name.partition("/")[0] in names
        }
        files = self._file_ends.searchsorted(indices, side="right")
        order = files.argsort(kind="stable")
        numbers, firsts = np.unique(files[order], return_index=True)
        for number, at in zip(numbers.tolist(), np.split(order, firsts)[1:], strict=True):
            columns = self.file(number)
            own = indices[at] - (self._file_ends[number - 1] if number else 0)
            for name, leaf in leaves.items():
                leaf[at] = columns[name][own]
        return self.batch(leaves)

    def batch(self, columns: Columns) -> SampleBatch:
        """Converts flat columns to a batch whose observations and actions have the nested structure of their spaces."""
        trees = {"obs": self.observation_space, "actions": self.action_space}
        roots = dict.fromkeys(name.partition("/")[0] for name in columns)
        return SampleBatch(
            {name: as_tree(name, trees[name], columns) if name in trees else columns[name] for name in roots}
        )

    @cached_property
    def episodes(self) -> EpisodeBounds:
        """Bounds of all episodes of the data set."""
        all_lengths = np.concatenate([np.zeros(0, np.int64), *(file.lengths for file in self.manifest.files)])
        return EpisodeBounds(np.cumsum(all_lengths + 1) - all_lengths - 1, all_lengths)

    @cached_property
    def _steps_before(self) -> Indices:
        """Number of steps before each episode, [E]."""
        before: Indices = np.cumsum(self.episodes.lengths) - self.episodes.lengths
        return before

    def rows_of_steps(self, steps: Indices) -> Indices:
        """Converts step numbers to row numbers, which also count final observations.

        Args:
            steps: Step numbers (from 0 to `num_steps` - 1), [N].
        """
        rows: Indices = steps + self._steps_before.searchsorted(steps, side="right") - 1
        return rows

    def ends_of_steps(self, steps: Indices) -> Indices:
        """Returns, for each given step, the row number of the final observation of the step's episode, [N].

        Args:
            steps: Step numbers (from 0 to `num_steps` - 1), [N].
        """
        episodes = self._steps_before.searchsorted(steps, side="right") - 1
        ends: Indices = self.episodes.starts[episodes] + self.episodes.lengths[episodes]
        return ends

    def moments(self) -> dict[str, Moments]:
        """Returns count, mean and sum of squared deviations over all files, by name of the (numeric) column."""
        return self.manifest.moments()
