"""Episodes to be written to a data set, copied from other data sets or converted from other formats."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.checkpoint.durable import partial_name
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.layout import ColumnForm, SetSpaces, episode_rows
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.messages.errors import UsageError

Mask = NDArray[np.bool_]


class EpisodeRows(NamedTuple):
    """Episode to be written to a data set: its recorded columns, and the name of its agent."""

    rows: Mapping[str, Any]
    agent: str = ""


@dataclass(frozen=True)
class EpisodeSource:
    """Episodes to be written to a data set, with the metadata that the writer needs.

    Attributes:
        spaces: Spaces of observations and actions.
        episodes: Iterator of the episodes, usable once.
        further: Dtypes and shapes of additional columns by name, beyond those that every data set has.
        about: Notes for the manifest of the data set, such as the env.
    """

    spaces: SetSpaces
    episodes: Iterable[EpisodeRows]
    further: Mapping[str, ColumnForm] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> DataSet:
        """Writes the episodes to a new data set, whose folder appears once it is complete.

        Raises:
            UsageError: The folder exists, or the rows of an episode do not fit the spaces.
        """
        if folder.exists():
            raise UsageError(f"{folder} already exists: choose another folder for the new data set")
        partial = partial_name(folder)
        try:
            with SetWriter(partial, *self.spaces, further=self.further, about=self.about) as writer:
                for number, episode in enumerate(self.episodes):
                    try:
                        writer.add_episode(episode.rows, agent=episode.agent)
                    except (TypeError, ValueError) as error:
                        raise UsageError(f"episode {number} does not match its spaces: {error}") from error
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return DataSet(folder)


def episodes_of(found: DataSet, chosen: Mask | None = None) -> Iterator[EpisodeRows]:
    """Yields the episodes of a data set, in order.

    Args:
        found: The opened data set.
        chosen: Mask [E] that selects which of the E episodes to yield; None for all.
    """
    number = 0
    for columns in found.files():
        for start, end in episode_rows(columns["valid"]):
            if chosen is None or chosen[number]:
                rows = found.batch({name: column[start : end + 1] for name, column in columns.items()})
                agent = found.agents[rows["agent"][0]]
                steps = rows.map(lambda leaf: leaf[:-1])
                names = [name for name in rows if name not in ("obs", "valid", "episode", "agent")]
                yield EpisodeRows({"obs": rows["obs"]} | {name: steps[name] for name in names}, agent)
            number += 1


def copy_of(sets: Sequence[DataSet], chosen: Sequence[Mask | None]) -> EpisodeSource:
    """Returns the episodes of several data sets with equal spaces, one set after another, to be written to a new set.

    Args:
        sets: The data sets.
        chosen: For each set, a mask [E] that selects some of its E episodes; None for all.

    Raises:
        UsageError: The sets differ in spaces or columns.
    """
    first = sets[0].manifest
    for other in sets[1:]:
        if (other.manifest.spaces, other.manifest.columns) != (first.spaces, first.columns):
            raise UsageError(f"{other.folder} and {sets[0].folder} cannot be merged: their spaces or columns differ")
    episodes = (episode for found, mask in zip(sets, chosen, strict=True) for episode in episodes_of(found, mask))
    about = first.about if all(found.manifest.about == first.about for found in sets) else {}
    return EpisodeSource(first.spaces, episodes, first.further, about)


def drawn(found: DataSet, number: int, seed: int) -> Mask:
    """Returns a random mask [E] that selects `number` of a data set's E episodes, drawn without replacement.

    Raises:
        UsageError: The set has fewer episodes.
    """
    if number > found.num_episodes:
        raise UsageError(f"{found.folder} has only {found.num_episodes:,} episodes, fewer than the {number:,} to draw")
    mask: Mask = np.zeros(found.num_episodes, np.bool_)
    mask[np.random.default_rng(seed).permutation(found.num_episodes)[:number]] = True
    return mask
