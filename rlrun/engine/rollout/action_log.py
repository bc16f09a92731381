"""Action log of a worker's env slots, from which a resume replays the current episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LogTail:
    """Incremental update of an action log: the newest rows.

    Attributes:
        rows: The newest rows.
        length: Number of rows of the whole log.
    """

    rows: NDArray[Any]
    length: int


def with_logs_joined(place: Any, before: Any) -> Any:
    """Returns a worker's full state, in which each `LogTail` in `place` is appended to the log of the previous state.

    Args:
        place: The worker's state with tails of logs: nested mappings and lists of plain values and tails.
        before: The worker's previous full state, None if there was none.
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
    """Log of actions since the reset of the longest current episode, trimmed at twice that length.

    Trimming only after the log has doubled amortizes the cost of querying each env slot's episode length.
    """

    def __init__(self) -> None:
        self._fragments: list[NDArray[Any]] = []
        self._rows = self._rows_to_trim_at = 0

    def append(self, actions: NDArray[Any]) -> None:
        """Adds a fragment of actions [T, B, ...], which must not be changed afterwards."""
        self._fragments.append(actions)
        self._rows += len(actions)

    @property
    def is_full(self) -> bool:
        """Whether the log has reached the length at which `trim` is due."""
        return self._rows >= self._rows_to_trim_at

    def trim(self, longest: int) -> None:
        """Drops fragments older than the start of the longest current episode, which has `longest` actions."""
        unneeded = 0
        while self._rows - len(self._fragments[unneeded]) >= max(longest, 1):
            self._rows -= len(self._fragments[unneeded])
            unneeded += 1
        del self._fragments[:unneeded]
        self._rows_to_trim_at = 2 * self._rows

    def latest(self, lengths: Sequence[int]) -> list[NDArray[Any]]:
        """Returns the last `lengths[slot]` actions of each env slot."""
        actions = np.concatenate(self._fragments)
        return [actions[len(actions) - length :, slot].copy() for slot, length in enumerate(lengths)]

    def tails(self, lengths: Sequence[int]) -> list[LogTail]:
        """Returns the actions of the newest fragment, at most `lengths[slot]` for each env slot."""
        newest = self._fragments[-1]
        firsts = [max(len(newest) - length, 0) for length in lengths]
        return [LogTail(newest[first:, slot].copy(), lengths[slot]) for slot, first in enumerate(firsts)]

    def load(self, actions: Sequence[NDArray[Any]]) -> None:
        """Restores the actions that `latest` returned."""
        longest = max(len(own) for own in actions)
        rows = np.zeros((longest, len(actions), *actions[0].shape[1:]), actions[0].dtype)
        for slot, own in enumerate(actions):
            rows[longest - len(own) :, slot] = own
        self._fragments, self._rows = [rows], longest
