"""The recent actions of a worker's env slots, from which a checkpoint replays the present episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LogTail:
    """The newest rows of a log, of which whoever is told has the rows before.

    Attributes:
        rows: The newest rows.
        length: How many rows the log has with those before.
    """

    rows: NDArray[Any]
    length: int


def with_logs_joined(place: Any, before: Any) -> Any:
    """Returns a worker's state: its place, with every `LogTail` in it put behind the log of the state before.

    Args:
        place: Mappings and lists down to plain values and tails.
        before: The worker's state at its place before, None if there was none.
    """
    if isinstance(place, LogTail):
        rows = place.rows if before is None else np.concatenate([before, place.rows])
        return rows[len(rows) - place.length :]
    if isinstance(place, Mapping):
        return {key: with_logs_joined(value, before.get(key) if before else None) for key, value in place.items()}
    if isinstance(place, list):
        parts = before or [None] * len(place)
        return [with_logs_joined(value, part) for value, part in zip(place, parts, strict=True)]
    return place


class ActionLog:
    """Keeps fragments of actions back to the reset of the oldest present episode, and at most as many again.

    How long the present episodes are is asked only when so many actions have come together, since that costs a call
    for every env slot.
    """

    def __init__(self) -> None:
        self._fragments: list[NDArray[Any]] = []
        self._rows = self._rows_to_trim_at = 0

    def append(self, actions: NDArray[Any]) -> None:
        """Adds a fragment of actions [T, B, ...], which nobody may change afterwards."""
        self._fragments.append(actions)
        self._rows += len(actions)

    @property
    def is_full(self) -> bool:
        """Whether `trim` is due."""
        return self._rows >= self._rows_to_trim_at

    def trim(self, longest: int) -> None:
        """Drops the fragments from before the longest present episode, which has so many actions."""
        unneeded = 0
        while self._rows - len(self._fragments[unneeded]) >= max(longest, 1):
            self._rows -= len(self._fragments[unneeded])
            unneeded += 1
        del self._fragments[:unneeded]
        self._rows_to_trim_at = 2 * self._rows

    def latest(self, lengths: Sequence[int]) -> list[NDArray[Any]]:
        """Returns the latest actions of each env slot, `lengths[slot]` of them."""
        actions = np.concatenate(self._fragments)
        return [actions[len(actions) - length :, slot].copy() for slot, length in enumerate(lengths)]

    def tails(self, lengths: Sequence[int]) -> list[LogTail]:
        """Returns the actions of the newest fragment, of each env slot at most `lengths[slot]`."""
        newest = self._fragments[-1]
        firsts = [max(len(newest) - length, 0) for length in lengths]
        return [LogTail(newest[first:, slot].copy(), lengths[slot]) for slot, first in enumerate(firsts)]

    def load(self, actions: Sequence[NDArray[Any]]) -> None:
        """Goes on with what `latest` returned."""
        longest = max(len(own) for own in actions)
        rows = np.zeros((longest, len(actions), *actions[0].shape[1:]), actions[0].dtype)
        for slot, own in enumerate(actions):
            rows[longest - len(own) :, slot] = own
        self._fragments, self._rows = [rows], longest
