"""Writer of data sets, which stores complete episodes in files that it writes atomically.

Rows of a running episode stay in memory, by slot (env or agent), until the episode ends. Finished episodes stay in
memory until they fill a file. A killed process thus loses at most the unwritten file and the running episodes;
checkpoints include both.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import gymnasium
import numpy as np

from rlrun.engine.checkpoint.durable import remove_leftovers, write_pieces
from rlrun.engine.data.tree import map_tree
from rlrun.engine.datasets.arrow_file import file_pieces
from rlrun.engine.datasets.layout import ColumnForm, SetSpaces, column_forms
from rlrun.engine.datasets.manifest import (
    FILE_NAME,
    MANIFEST_FILE,
    FileEntry,
    Manifest,
    is_data_set,
    lengths_of,
    moments_of,
    read_manifest,
    require_files,
)
from rlrun.engine.datasets.open_episodes import OpenEpisodes, RowRange, WholeEpisode, checked, joined
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.messages.errors import DataSetError, UsageError

EPISODES_PER_FILE = 1_000
ROWS_PER_FILE = 100_000

BYTES_PER_FILE = 64_000_000
"""Size in bytes at which a file of large rows, such as images, is closed before it has `ROWS_PER_FILE` rows."""


def remove_data_set(folder: Path) -> None:
    """Removes the files of a data set from a folder, if there is one; other files are kept."""
    if is_data_set(folder):
        (folder / MANIFEST_FILE).unlink()
        remove_leftovers(folder)
        _remove_files(folder, but=())


def _remove_files(folder: Path, but: Iterable[str]) -> None:
    """Removes files with names of a data set's files, except those with the given names."""
    for path in [path for path in folder.iterdir() if FILE_NAME.fullmatch(path.name)]:
        if path.name not in but:
            path.unlink()


class SetWriter:
    """Writer of a data set, which accepts complete episodes, or rows of several slots (envs or agents) in parallel.

    As a context manager, it closes the data set on exit.

    Args:
        folder: Folder of the data set, created with the first rows.
        observation_space: Space of observations.
        action_space: Space of actions, as the env takes them.
        further: Dtypes and shapes of additional columns by name, such as `logp`.
        about: Notes for the manifest, such as the env.
        episodes_per_file: Number of episodes after which a file is closed.
        rows_per_file: Number of rows after which a file is closed. A longer episode is split there; the rest gets the
            next episode number.

    Attributes:
        folder: Folder of the data set.
        further: Dtypes and shapes of additional columns by name.

    Raises:
        ValueError: Two columns have the same name.
    """

    def __init__(
        self,
        folder: Path,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        *,
        further: Mapping[str, ColumnForm] | None = None,
        about: Mapping[str, Any] | None = None,
        episodes_per_file: int = EPISODES_PER_FILE,
        rows_per_file: int = ROWS_PER_FILE,
    ) -> None:
        spaces = SetSpaces(observation_space, action_space)
        forms = column_forms(spaces, further or {})
        row_bytes = sum(form.dtype.itemsize * math.prod(form.shape) for form in forms.values())
        self.folder = folder
        self.further = dict(further or {})
        self._manifest = Manifest(spaces, forms, (), about or {})
        self._episodes_per_file = episodes_per_file
        self._rows_per_file = min(rows_per_file, max(BYTES_PER_FILE // row_bytes, 1))
        self._open = OpenEpisodes(spaces, forms, rows_per_file)
        self._finished: list[RowRange] = []
        self._finished_rows = 0
        self._next_episode = 0
        self._first_in_file = 0
        self._agents: list[str] = []
        self._begun = False

    def add(self, slot: str, rows: Mapping[str, Any], *, agent: str = "", begins: bool = False) -> None:
        """Adds the next N rows of one slot (env or agent), columns [N, ...]; see `add_slots`.

        Args:
            slot: Name of the slot.
            rows: The rows.
            agent: Name of the agent.
            begins: Whether the first row begins an episode although the previous one has not ended.
        """
        of_one = {name: map_tree(lambda leaf: np.asarray(leaf)[:, None], column) for name, column in rows.items()}
        self.add_slots([slot], of_one, [begins], agent=agent)

    def add_slots(
        self, slots: Sequence[str], rows: Mapping[str, Any], begins: Sequence[bool], *, agent: str = ""
    ) -> None:
        """Adds the next T rows of B slots (parallel envs or agents), as columns [T, B, ...] like those of rollouts.

        Args:
            slots: Names of the slots, [B]. In the rows of a slot, an episode's last step is followed by a row with
                `valid` false, which holds the final observation.
            rows: `obs` [T + 1, B, ...], whose last row is the observation after the T rows; `actions`, `rewards`,
                `terminateds`, `truncateds` and the further columns [T, B, ...]. `valid` may be missing if all rows are
                steps; `weights_version` and `seed` may be missing if they are unknown.
            begins: Whether, for each slot, the first row begins an episode although the previous one has not ended. The
                previous episode is kept as an incomplete one, whose last step is neither terminated nor truncated.
            agent: Name of the agent.

        Raises:
            UsageError: The folder already contains something else.
            ValueError: The rows do not fit the spaces.
            OutOfResources: The disk is full.
        """
        for episode in self._open.add(slots, rows, agent, begins):
            self._keep(episode)

    def add_episode(self, rows: Mapping[str, Any], *, seed: int | None = None, agent: str = "") -> None:
        """Adds a complete episode of T steps: `obs` [T + 1, ...], with the final observation, and columns [T, ...].

        See `add` for the columns.
        """
        own = {} if seed is None else {"seed": np.full(len(rows["rewards"]), seed)}
        self.add("", {**rows, **own}, agent=agent)
        for episode in self._open.cut(""):
            self._keep(episode)

    def close(self) -> None:
        """Closes the last file; running episodes are kept as incomplete episodes, without termination or truncation."""
        for episode in self._open.cut_all():
            self._keep(episode)
        self._begin()
        if self._finished:
            self._close_file()

    def _begin(self) -> None:
        """Creates the folder with an empty set, once."""
        if self._begun:
            return
        require_empty(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._manifest.save(self.folder)
        self._begun = True

    def _keep(self, episode: WholeEpisode) -> None:
        self._begin()
        if episode.agent not in self._agents:
            self._agents.append(episode.agent)
        agent = self._agents.index(episode.agent)
        for columns, start, stop in episode.parts:
            columns["episode"][start:stop], columns["agent"][start:stop] = self._next_episode, agent
            self._finished_rows += stop - start
        self._finished += episode.parts
        self._next_episode += 1
        is_full = self._next_episode - self._first_in_file >= self._episodes_per_file
        if is_full or self._finished_rows >= self._rows_per_file:
            self._close_file()

    def _close_file(self) -> None:
        """Writes the finished episodes to a file, and then the manifest, which adds the file to the set."""
        manifest, columns = self._manifest, joined(self._finished)
        pieces = file_pieces(columns, manifest.columns)
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
        entry = FileEntry(
            name=f"{len(manifest.files):06d}.arrow",
            rows=self._finished_rows,
            steps=int(np.count_nonzero(columns["valid"])),
            size=sum(map(len, pieces)),
            sha256=digest.hexdigest(),
            moments=moments_of(columns, manifest.columns, manifest.spaces),
            lengths=lengths_of(columns["valid"]),
        )
        write_pieces(self.folder / entry.name, pieces, entry.size)
        self._manifest = replace(manifest, agents=tuple(self._agents), files=(*manifest.files, entry))
        self._manifest.save(self.folder)
        self._finished, self._finished_rows, self._first_in_file = [], 0, self._next_episode
        self._open.release()

    def state(self) -> dict[str, Any]:
        """Returns the writer's state for checkpoints: files so far, rows not yet in a file, and running episodes."""
        finished = joined(self._finished) if self._finished else {}
        if finished:
            self._finished = [RowRange(finished, 0, self._finished_rows)]
        return {
            "begun": self._begun,
            "files": [entry.sha256 for entry in self._manifest.files],
            "next_episode": self._next_episode,
            "first_in_file": self._first_in_file,
            "agents": list(self._agents),
            "finished": finished,
            "open": self._open.state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the writer from `state()`, and removes data that was written after the state was saved.

        Raises:
            DataSetError: The set lacks data that it had when the state was saved, or was altered.
            ValueError: The state is malformed, or belongs to a set with different columns.
        """
        self._open.load_state(state["open"])
        finished = checked(state["finished"], self._manifest.columns) if state["finished"] else {}
        self._finished_rows = len(finished["valid"]) if finished else 0
        self._finished = [RowRange(finished, 0, self._finished_rows)] if finished else []
        self._next_episode, self._first_in_file = as_count(state["next_episode"]), as_count(state["first_in_file"])
        self._agents = [str(agent) for agent in state["agents"]]
        self._begun = bool(state["begun"])
        if self._begun:
            self._cut_after(list(state["files"]))

    def _cut_after(self, digests: list[str]) -> None:
        """Removes the files that were written after those with the given digests."""
        found = read_manifest(self.folder)
        if (found.columns, found.spaces) != (self._manifest.columns, self._manifest.spaces):
            raise DataSetError(f"the spaces or columns of {self.folder} do not match the run that writes to it")
        for number, digest in enumerate(digests):
            entry = found.files[number] if number < len(found.files) else None
            if entry is None or entry.sha256 != digest:
                name = f"{number:06d}.arrow"
                raise DataSetError(f"{self.folder / name} differs from the file written by the checkpoint's run")
        kept = found.files[: len(digests)]
        require_files(self.folder, kept)
        self._manifest = replace(self._manifest, agents=tuple(self._agents), files=kept)
        self._manifest.save(self.folder)
        remove_leftovers(self.folder)
        _remove_files(self.folder, but={entry.name for entry in kept})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()


def require_empty(folder: Path) -> None:
    """Validates that a folder is empty, so that a new data set can be written to it.

    Raises:
        UsageError: The folder has other contents.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "a data set" if is_data_set(folder) else "other files"
        raise UsageError(f"{folder} already contains {what}: choose another folder for the new data set")
