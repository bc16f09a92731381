"""Log of the actions taken in a worker's env slots, from which a resumed run recreates the current episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LogTail:
    """The newest actions in an action log, which a worker sends instead of the whole log.

    Attributes:
        rows: The newest actions, in order.
        length: Number of actions in the whole log.
    """

    rows: NDArray[Any]
    length: int


def with_logs_joined(place: Any, before: Any) -> Any:
    """Replaces each `LogTail` in a worker's state with the full log: the previous log with the tail appended.

    Returns the complete state.

    Args:
        place: The worker's new state: nested mappings and lists of plain values and `LogTail` objects.
        before: The worker's previous full state, or None without one.
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


FEWEST_ROWS = 256
"""Number of rows below which an action log is not trimmed."""


class ActionLog:
    """Actions of a vector env's recent steps, back to at least the start of the longest current episode.

    Older actions are dropped by `trim`, which need only be called when the log has doubled since the last trim.
    """

    def __init__(self) -> None:
        self._fragments: list[NDArray[Any]] = []
        self._rows = self._rows_to_trim_at = 0

    def append(self, actions: NDArray[Any]) -> bool:
        """Adds the actions [T, B, ...] of T steps in B env slots; the array must not be changed afterwards.

        Returns whether the log has doubled since it was last trimmed, so that `trim` should be called.
        """
        self._fragments.append(actions)
        self._rows += actions.shape[0]
        return self._rows >= self._rows_to_trim_at

    def trim(self, longest: int) -> None:
        """Drops fragments older than the start of the longest current episode, which has `longest` actions."""
        unneeded, least = 0, max(longest, 1)
        while self._rows - (length := self._fragments[unneeded].shape[0]) >= least:
            self._rows -= length
            unneeded += 1
        del self._fragments[:unneeded]
        self._rows_to_trim_at = max(2 * self._rows, FEWEST_ROWS)

    def latest(self, lengths: Sequence[int]) -> list[NDArray[Any]]:
        """Returns the last `lengths[slot]` actions of each env slot, for example the actions of its current episode."""
        actions = np.concatenate(self._fragments)
        return [actions[len(actions) - length :, slot].copy() for slot, length in enumerate(lengths)]

    def tails(self, lengths: Sequence[int]) -> list[LogTail]:
        """Returns each env slot's actions in the newest fragment, at most the last `lengths[slot]` of them."""
        newest = self._fragments[-1]
        firsts = [max(len(newest) - length, 0) for length in lengths]
        return [LogTail(newest[first:, slot].copy(), lengths[slot]) for slot, first in enumerate(firsts)]

    def load(self, actions: Sequence[NDArray[Any]]) -> None:
        """Restores the log from the actions that `latest` returned."""
        longest = max(len(own) for own in actions)
        rows = np.zeros((longest, len(actions), *actions[0].shape[1:]), actions[0].dtype)
        for slot, own in enumerate(actions):
            rows[longest - len(own) :, slot] = own
        self._fragments, self._rows = [rows], longest
