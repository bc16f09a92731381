"""Running episodes of a data set under writing: the rows of each slot since its episode began."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rlrun.datasets.layout import UNKNOWN, ColumnForm, Columns, SetSpaces, as_columns, named_forms

OF_THE_WRITER = ("episode", "agent")
"""Columns that the writer fills in once an episode is whole."""

CARRIED = ("weights_version", "seed")
"""Columns whose last number is repeated in the row of the final observation."""


class WholeEpisode(NamedTuple):
    """Rows of an episode, its final observation included, and the agent's name."""

    columns: Columns
    agent: str


@dataclass
class OpenEpisode:
    """Running episode of a slot.

    Attributes:
        agent: Name of the agent.
        parts: Steps so far, in order; at least one.
        closing: Observation after the last step, leaves [1, ...].
        num_steps: Number of steps so far.
    """

    agent: str
    parts: list[Columns] = field(default_factory=list)
    closing: Columns = field(default_factory=dict)
    num_steps: int = 0

    def joined(self) -> Columns:
        """Joins the steps to one part."""
        if len(self.parts) > 1:
            self.parts = [joined(self.parts)]
        return self.parts[0]


class OpenEpisodes:
    """Running episodes by slot.

    Args:
        spaces: Spaces of observations and actions.
        forms: Forms of all columns.
        most_rows: Number of steps at which an episode is cut.
    """

    def __init__(self, spaces: SetSpaces, forms: Mapping[str, ColumnForm], most_rows: int) -> None:
        self._forms = {name: form for name, form in forms.items() if name not in OF_THE_WRITER}
        self._observed = list(named_forms("obs", spaces.observation))
        self._most_rows = most_rows
        self._slots: dict[str, OpenEpisode] = {}

    def add(self, slot: str, rows: Mapping[str, Any], agent: str, begins: bool) -> Iterator[WholeEpisode]:
        """Adds the next rows of a slot, and yields the episodes that are whole by then; see `SetWriter.add`."""
        columns, closing = self._flat(rows)
        if begins:
            yield from self.cut(slot)
        start = 0
        for end in np.flatnonzero(~columns["valid"]).tolist():
            self._extend(slot, columns, slice(start, end), agent)
            if slot in self._slots:
                yield self._ended(slot, {name: columns[name][end : end + 1] for name in self._observed})
            start = end + 1
        self._extend(slot, columns, slice(start, len(columns["valid"])), agent)
        if slot in self._slots:
            self._slots[slot].closing = closing
            if self._slots[slot].num_steps >= self._most_rows:
                yield from self.cut(slot)

    def cut(self, slot: str) -> Iterator[WholeEpisode]:
        """Yields the running episode of a slot, if there is one, as it is so far."""
        if slot in self._slots:
            yield self._ended(slot, self._slots[slot].closing)

    def cut_all(self) -> Iterator[WholeEpisode]:
        """Yields all running episodes as they are so far."""
        for slot in list(self._slots):
            yield from self.cut(slot)

    def _extend(self, slot: str, columns: Columns, rows: slice, agent: str) -> None:
        if rows.stop > rows.start:
            episode = self._slots.setdefault(slot, OpenEpisode(agent))
            episode.parts.append({name: np.array(column[rows]) for name, column in columns.items()})
            episode.num_steps += rows.stop - rows.start

    def _ended(self, slot: str, final: Columns) -> WholeEpisode:
        episode = self._slots.pop(slot)
        steps = episode.joined()
        last = {name: np.zeros((1, *form.shape), form.dtype) for name, form in self._forms.items()}
        last |= {name: steps[name][-1:] for name in CARRIED} | final
        return WholeEpisode(joined([steps, last]), episode.agent)

    def _flat(self, rows: Mapping[str, Any]) -> tuple[Columns, Columns]:
        """Converts rows to flat columns [N, ...] in the set's dtypes, and the observation after them.

        Raises:
            ValueError: A column is missing, not known, or has another shape or kind of numbers.
        """
        given = as_columns("obs", rows["obs"]) | as_columns("actions", rows["actions"])
        given |= {name: np.asarray(column) for name, column in rows.items() if name not in ("obs", "actions")}
        length = len(given["rewards"])
        for name, number in (("valid", True), *((name, UNKNOWN) for name in CARRIED)):
            given.setdefault(name, np.full(length, number, self._forms[name].dtype))
        if given.keys() != self._forms.keys():
            raise ValueError(f"rows have the columns {', '.join(given)}, and the data set {', '.join(self._forms)}")
        columns, closing = {}, {}
        for name, form in self._forms.items():
            column, own_length = given[name], length + (name in self._observed)
            if column.shape != (own_length, *form.shape):
                raise ValueError(f"the column '{name}' has shape {column.shape}, not {(own_length, *form.shape)}")
            column = column.astype(form.dtype, casting="same_kind", copy=False)
            columns[name] = column[:length]
            if name in self._observed:
                closing[name] = np.array(column[length:])
        return columns, closing

    def state(self) -> dict[str, Any]:
        """Returns the running episodes as plain data for checkpoints."""
        return {
            slot: {"agent": own.agent, "rows": own.joined(), "closing": own.closing}
            for slot, own in self._slots.items()
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the running episodes from `state()`.

        Raises:
            ValueError: The state does not fit the columns.
        """
        observed = {name: self._forms[name] for name in self._observed}
        self._slots = {}
        for slot, own in state.items():
            steps, closing = checked(own["rows"], self._forms), checked(own["closing"], observed)
            self._slots[str(slot)] = OpenEpisode(str(own["agent"]), [steps], closing, len(steps["valid"]))


def joined(parts: list[Columns]) -> Columns:
    """Concatenates columns along their rows."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def checked(columns: Mapping[str, Any], forms: Mapping[str, ColumnForm]) -> Columns:
    """Validates columns from a checkpoint, and returns them.

    Raises:
        ValueError: Names, dtypes, shapes or numbers of rows differ from the forms, or there are no rows.
    """
    found = {str(name): np.asarray(column) for name, column in columns.items()}
    own = {name: ColumnForm(column.dtype, column.shape[1:]) for name, column in found.items() if column.ndim}
    rows = {len(column) for column in found.values() if column.ndim}
    if own != dict(forms) or len(rows) != 1 or rows == {0}:
        raise ValueError(f"rows of a data set with the columns {own} do not fit those of {dict(forms)}")
    return found
