"""Rows of a fragment that hold nothing, and the fragment without them (NumPy).

A slot's stream is its sequence of rows. A row with `valid` 1 holds a step. A row with `valid` 0 directly behind a step
that ended its episode holds the final observation, with reward 0 and no end. Any other row with `valid` 0 is *empty*:
no agent owned the slot, or its agent had no decision there. What stands in an empty row is garbage and counts nowhere.

Hence the stream goes on from a step to the next row that is not empty, whose observation and value are what follows the
step; gamma counts once for each step. Where no such row comes, the closing row T follows the step; behind a final
observation the closing row is empty too. Row 0 with `valid` 0 has nothing before it in the fragment that it could be
the final observation of, and counts as empty.

Whatever looks from a row to the next one does so in a packed fragment: what follows a step is in the row behind it, and
in empty rows stand zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.tree import leaves, map_tree

Flags = NDArray[np.bool_]


def filled_rows(valid: Flags, ends: Flags, ended_before: Flags | None = None) -> Flags:
    """Whether a row of a fragment is not empty: a step, an episode's final observation, or what closes the last step.

    Args:
        valid: Whether the row holds a step, [T, B].
        ends: Whether the step ended its episode, [T, B]; anything in rows without a step.
        ended_before: Whether the row before the fragment holds a step that ended its episode, [B], where that is known:
            row 0 then holds its final observation.

    Returns:
        [T + 1, B], the closing row included.
    """
    length, slots = valid.shape
    ends = valid & ends
    filled = np.empty((length + 1, slots), np.bool_)
    filled[:-1], filled[-1] = valid, valid[-1]
    filled[1:-1] |= ends[:-1]
    if ended_before is not None:
        filled[0] |= ended_before
    if np.count_nonzero(valid[-1]) < slots:
        last = length - 1 - valid[::-1].argmax(axis=0)
        filled[-1] |= valid.any(axis=0) & ~ends[last, np.arange(slots)]
    return filled


def zeroed(tree: Any, holds: Flags) -> Any:
    """Returns a tree of arrays [T, B, ...] with zeros in rows that hold nothing that counts, by `holds` [T, B]."""

    def clear(leaf: NDArray[Any]) -> NDArray[Any]:
        return np.where(holds.reshape(*holds.shape, *[1] * (leaf.ndim - 2)), leaf, np.zeros((), leaf.dtype))

    return map_tree(clear, tree)


def clear(tree: Any, rows: Flags) -> None:
    """Writes zeros into rows of a tree of arrays, in place: [T, B, ...] by `rows` [T, B], or [T, ...] by [T]."""
    for leaf in leaves(tree):
        leaf[rows] = 0


class Packing:
    """Where the rows of a fragment stand once no empty one follows a step that goes on.

    Rows move only where one does, or `to_front` asks for it; then each slot's rows stand one behind the other, the
    closing row behind the last.

    Args:
        valid: Whether a row holds a step, [T, B].
        terminateds: Whether the step ended its episode for good, [T, B].
        truncateds: Whether the step's episode was cut off there, [T, B].
        to_front: Whether rows move also where a slot's first one is empty, so that row 0 is a step wherever there is
            one: a recurrent network begins there.

    Attributes:
        truncateds: Whether a packed step's episode was cut off there, or its slot's rows end with it, [T, B]. Either
            way nothing follows the step but the value in the next row.
    """

    def __init__(self, valid: Flags, terminateds: Flags, truncateds: Flags, *, to_front: bool = False) -> None:
        self._length, slots = valid.shape
        self._slots = np.arange(slots)
        self._filled: Flags | None = None
        self._order: NDArray[np.int64] | None = None
        self.truncateds = truncateds
        if np.count_nonzero(valid) == valid.size:
            return
        ends = terminateds | truncateds
        filled = filled_rows(valid, ends)
        if np.count_nonzero(filled) == filled.size:
            return
        self._filled = filled
        if np.count_nonzero(valid & ~ends & ~filled[1:]) or (to_front and not filled[0].all()):
            self._order = np.argsort(~filled, axis=0, kind="stable")
            self._filled = filled[self._order, self._slots]
            is_closing = self._filled & (self._order == self._length)
            self.truncateds = self.pack(truncateds) | is_closing[1:]

    @property
    def moves(self) -> bool:
        """Whether rows move."""
        return self._order is not None

    def pack(self, leaf: NDArray[Any]) -> NDArray[Any]:
        """Returns a column [T, B, ...] or [T + 1, B, ...] packed, with zeros in empty rows."""
        if self._filled is None:
            return leaf
        filled = self._filled[: len(leaf)]
        if self._order is None:
            zeros: NDArray[Any] = zeroed(leaf, filled)
            return zeros
        order = self._order[: len(leaf)]
        if len(leaf) == self._length:  # without a closing row
            filled, order = filled & (order < self._length), order.clip(max=self._length - 1)
        packed = leaf[order, self._slots]
        packed[~filled] = 0
        return packed

    def first(self, leaf: NDArray[Any]) -> NDArray[Any]:
        """Returns the first row of a packed column [T, B, ...], [B, ...]."""
        if self._filled is None:
            row: NDArray[Any] = leaf[0]
            return row
        row, holds = leaf[0], self._filled[0]
        if self._order is not None:
            first = self._order[0]
            row, holds = leaf[first.clip(max=self._length - 1), self._slots], holds & (first < self._length)
        kept: NDArray[Any] = zeroed(row[None], holds[None])[0]
        return kept

    def unpack(self, leaf: NDArray[Any]) -> NDArray[Any]:
        """Returns a packed column [T, B, ...] with its rows back where they came from; zeros in rows that moved."""
        if self._order is None or self._filled is None:
            return leaf
        order = self._order[:-1]
        rows, slots = (self._filled[:-1] & (order < self._length)).nonzero()
        unpacked = np.zeros_like(leaf)
        unpacked[order[rows, slots], slots] = leaf[rows, slots]
        return unpacked
