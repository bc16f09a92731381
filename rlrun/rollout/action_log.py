"""The recent actions of a worker's env slots, from which a checkpoint replays the present episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


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

    def load(self, actions: Sequence[NDArray[Any]]) -> None:
        """Goes on with what `latest` returned."""
        longest = max(len(own) for own in actions)
        rows = np.zeros((longest, len(actions), *actions[0].shape[1:]), actions[0].dtype)
        for slot, own in enumerate(actions):
            rows[longest - len(own) :, slot] = own
        self._fragments, self._rows = [rows], longest
