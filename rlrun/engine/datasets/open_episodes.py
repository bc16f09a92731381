"""Running episodes while a data set is written: the rows of each slot (env or agent) since its episode began."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rlrun.engine.datasets.layout import UNKNOWN, ColumnForm, Columns, SetSpaces, as_columns, named_forms

OF_THE_WRITER = ("episode", "agent")
"""Columns that the writer fills in once an episode is complete."""

CARRIED = ("weights_version", "seed")
"""Columns whose last value is repeated in the row of the final observation."""


class RowRange(NamedTuple):
    """Range of consecutive rows of one episode, within arrays that also hold rows of other episodes."""

    columns: Columns
    start: int
    stop: int


class WholeEpisode(NamedTuple):
    """Episode that is ready to be written: its rows in order, including the final observation, and the agent's name."""

    parts: list[RowRange]
    agent: str


@dataclass
class OpenEpisode:
    """Running episode of one slot (env or agent) of a data set's writer.

    Attributes:
        agent: Name of the agent.
        parts: Rows recorded so far, as one or more consecutive pieces.
        closing: Row with the observation after the last recorded step; None before the first fragment has ended.
        num_steps: Number of steps so far.
    """

    agent: str
    parts: list[RowRange] = field(default_factory=list)
    closing: RowRange | None = None
    num_steps: int = 0

    def joined(self) -> Columns:
        """Returns the episode's rows so far, concatenated from its pieces."""
        if len(self.parts) > 1:
            columns = joined(self.parts)
            self.parts = [RowRange(columns, 0, len(columns["valid"]))]
        columns, start, stop = self.parts[0]
        return {name: column[start:stop] for name, column in columns.items()}

    def release(self) -> None:
        """Copies the episode's rows out of arrays shared with other episodes, so that the arrays can be freed."""
        self.parts = [_own(part) for part in self.parts]
        self.closing = None if self.closing is None else _own(self.closing)


class OpenEpisodes:
    """Running episodes of a data set's writer, one per slot (env or agent).

    Args:
        spaces: Spaces of observations and actions.
        forms: Dtypes and shapes of all columns.
        most_rows: Number of steps after which a running episode is cut.
    """

    def __init__(self, spaces: SetSpaces, forms: Mapping[str, ColumnForm], most_rows: int) -> None:
        self._of_the_writer = {name: forms[name] for name in OF_THE_WRITER}
        self._forms = {name: form for name, form in forms.items() if name not in OF_THE_WRITER}
        self._observed = list(named_forms("obs", spaces.observation))
        self._most_rows = most_rows
        self._slots: dict[str, OpenEpisode] = {}

    def add(
        self, slots: Sequence[str], rows: Mapping[str, Any], agent: str, begins: Sequence[bool]
    ) -> Iterator[WholeEpisode]:
        """Adds the next T rows of all B slots, [T, B, ...], and yields the episodes that end in these rows.

        `SetWriter.add_slots` explains the arguments.
        """
        columns = self._flat(rows, len(slots))
        valid = columns["valid"].reshape(len(slots), -1)
        length = valid.shape[1]
        for number, slot in enumerate(slots):
            if begins[number]:
                yield from self.cut(slot)
            start, closing = number * length, number * length + length - 1
            for end in (np.flatnonzero(~valid[number, :-1]) + start).tolist():
                self._extend(slot, RowRange(columns, start, end), agent)
                if slot in self._slots:
                    yield self._ended(slot, RowRange(columns, end, end + 1))
                start = end + 1
            self._extend(slot, RowRange(columns, start, closing), agent)
            if slot in self._slots:
                self._slots[slot].closing = RowRange(columns, closing, closing + 1)
                if self._slots[slot].num_steps >= self._most_rows:
                    yield from self.cut(slot)

    def cut(self, slot: str) -> Iterator[WholeEpisode]:
        """Stops recording a slot's running episode, if there is one, and yields it as an incomplete episode."""
        if slot in self._slots:
            closing = self._slots[slot].closing
            assert closing is not None
            yield self._ended(slot, closing)

    def cut_all(self) -> Iterator[WholeEpisode]:
        """Stops recording all running episodes, and yields them as incomplete episodes."""
        for slot in list(self._slots):
            yield from self.cut(slot)

    def release(self) -> None:
        """Copies running episodes out of arrays shared with completed ones, so that the arrays can be freed."""
        for episode in self._slots.values():
            episode.release()

    def _extend(self, slot: str, rows: RowRange, agent: str) -> None:
        if rows.stop > rows.start:
            episode = self._slots.setdefault(slot, OpenEpisode(agent))
            episode.parts.append(rows)
            episode.num_steps += rows.stop - rows.start

    def _ended(self, slot: str, final: RowRange) -> WholeEpisode:
        episode = self._slots.pop(slot)
        columns, start, stop = episode.parts[-1]
        for name in CARRIED:
            final.columns[name][final.start] = columns[name][stop - 1]
        if final.columns is columns and final.start == stop:
            episode.parts[-1] = RowRange(columns, start, final.stop)
        else:
            episode.parts.append(final)
        return WholeEpisode(episode.parts, episode.agent)

    def _flat(self, rows: Mapping[str, Any], slots: int) -> Columns:
        """Converts rows [T, B, ...] to flat columns [B * (T + 1), ...] in the set's dtypes, one slot after the other.

        Rows without a step, such as the last one of each slot, are 0 in all columns except observations.

        Raises:
            ValueError: A column is missing or unknown, or has a different shape or kind of numbers.
        """
        given = as_columns("obs", rows["obs"]) | as_columns("actions", rows["actions"])
        given |= {name: np.asarray(column) for name, column in rows.items() if name not in ("obs", "actions")}
        length = len(given["rewards"])
        for name, number in (("valid", True), *((name, UNKNOWN) for name in CARRIED)):
            given.setdefault(name, np.full((length, slots), number, self._forms[name].dtype))
        if given.keys() != self._forms.keys():
            raise ValueError(
                f"the rows have the columns {', '.join(given)}, but the data set has {', '.join(self._forms)}"
            )
        columns = {}
        for name, form in self._forms.items():
            column, expected = given[name], (length + (name in self._observed), slots, *form.shape)
            if column.shape != expected:
                found, asked = ((*shape[:1], *shape[2:]) for shape in (column.shape, expected))
                raise ValueError(f"the column '{name}' has shape {found}, not {asked}")
            columns[name] = np.empty((slots, length + 1, *form.shape), form.dtype)
            np.copyto(columns[name][:, : len(column)], column.swapaxes(0, 1), casting="same_kind")
        columns["valid"][:, length] = False
        return self._completed(columns)

    def _completed(self, columns: Columns) -> Columns:
        """Flattens columns [B, N, ...], sets rows without a step to 0, and adds the writer's columns."""
        no_step = ~columns["valid"]
        for name, column in columns.items():
            if name not in self._observed:
                column[no_step] = 0
        flat = {name: column.reshape(no_step.size, *column.shape[2:]) for name, column in columns.items()}
        return flat | {name: np.zeros(no_step.size, form.dtype) for name, form in self._of_the_writer.items()}

    def state(self) -> dict[str, Any]:
        """Returns the running episodes as plain data for checkpoints."""
        state = {}
        for slot, own in self._slots.items():
            steps, closing = own.joined(), own.closing
            assert closing is not None
            state[slot] = {
                "agent": own.agent,
                "rows": {name: steps[name] for name in self._forms},
                "closing": {name: closing.columns[name][closing.start : closing.stop] for name in self._observed},
            }
        return state

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the running episodes from `state()`.

        Raises:
            ValueError: The state does not fit the columns.
        """
        observed = {name: self._forms[name] for name in self._observed}
        self._slots = {}
        for slot, own in state.items():
            steps, closing = checked(own["rows"], self._forms), checked(own["closing"], observed)
            after = {name: np.zeros((1, *form.shape), form.dtype) for name, form in self._forms.items()} | closing
            columns = self._completed({name: np.concatenate([steps[name], after[name]])[None] for name in self._forms})
            num_steps = len(steps["valid"])
            parts, last = [RowRange(columns, 0, num_steps)], RowRange(columns, num_steps, num_steps + 1)
            self._slots[str(slot)] = OpenEpisode(str(own["agent"]), parts, last, num_steps)


def joined(parts: Sequence[RowRange]) -> Columns:
    """Concatenates several ranges of rows, column by column."""
    return {
        name: np.concatenate([part.columns[name][part.start : part.stop] for part in parts])
        for name in parts[0].columns
    }


def _own(rows: RowRange) -> RowRange:
    """Returns rows whose arrays hold no other rows; copies them if needed."""
    columns, start, stop = rows
    if stop - start == len(columns["valid"]):
        return rows
    return RowRange({name: column[start:stop].copy() for name, column in columns.items()}, 0, stop - start)


def checked(columns: Mapping[str, Any], forms: Mapping[str, ColumnForm]) -> Columns:
    """Validates columns of an episode that were loaded from a checkpoint, and returns the columns.

    Raises:
        ValueError: Names, dtypes or shapes are not as expected, columns differ in length, or there are no rows.
    """
    found = {str(name): np.asarray(column) for name, column in columns.items()}
    own = {name: ColumnForm(column.dtype, column.shape[1:]) for name, column in found.items() if column.ndim}
    rows = {len(column) for column in found.values() if column.ndim}
    if own != dict(forms) or len(rows) != 1 or rows == {0}:
        raise ValueError(f"saved rows with the columns {own} do not match the data set's columns {dict(forms)}")
    return found
