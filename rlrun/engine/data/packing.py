"""Packing of fragments: removal of empty rows between a step and its successor (NumPy).

A row with `valid` 1 holds a step. A row with `valid` 0 directly after a step that ended its episode holds the final
observation, with reward 0 and no end of episode. Any other row with `valid` 0 is *empty*: no agent was in the slot, or
the agent had no decision to make. The content of an empty row is undefined and ignored.

The successor of a step is the slot's next row that is not empty; it holds the step's next observation and next value.
The discount factor applies once for each step. If there is no such row, the successor is the closing row T, which holds
the observation after the fragment; after a final observation the closing row is empty too. Row 0 with `valid` 0 counts
as empty, since the fragment has no step before it.

Computations that read the next row work on a packed fragment: the successor of a step is in the next row, and empty
rows hold zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.tree import leaves, map_tree

Flags = NDArray[np.bool_]


def filled_rows(valid: Flags, ends: Flags, ended_before: Flags | None = None) -> Flags:
    """Returns a mask of a fragment's non-empty rows: steps, final observations, and observations after the last steps.

    Args:
        valid: Whether the row holds a step, [T, B].
        ends: Whether the step ended its episode, [T, B]; arbitrary in rows without a step.
        ended_before: Whether the row before the fragment, if known, holds a step that ended its episode, [B]; row 0
            then holds the final observation.

    Returns:
        Mask [T + 1, B]; its last row belongs to the observations after the last steps.
    """
    length, slots = valid.shape
    ends = valid & ends
    filled = np.empty((length + 1, slots), np.bool_)
    filled[:-1], filled[-1] = valid, valid[-1]
    filled[1:-1] |= ends[:-1]
    if ended_before is not None:
        filled[0] |= ended_before
    if np.add.reduce(valid[-1]) < slots:
        last = length - 1 - valid[::-1].argmax(axis=0)
        filled[-1] |= valid.any(axis=0) & ~ends[last, np.arange(slots)]
    return filled


def zeroed(tree: Any, holds: Flags) -> Any:
    """Copies a tree of arrays [T, B, ...], with zeros at the entries where the mask `holds` [T, B] is false."""

    def clear(leaf: NDArray[Any]) -> NDArray[Any]:
        return np.where(holds.reshape(*holds.shape, *[1] * (leaf.ndim - 2)), leaf, np.zeros((), leaf.dtype))

    return map_tree(clear, tree)


def clear(tree: Any, rows: Flags) -> None:
    """Sets entries of a tree of arrays to zero, in place, where a mask over the first axes ([T, B] or [T]) is true."""
    for leaf in leaves(tree):
        leaf[rows] = 0


class Packing:
    """Permutation of a fragment's rows [T, B] after which there are no empty rows between a step and its successor.

    Empty rows hold neither a step nor a final observation. Rows move only if there are empty rows between steps, or if
    `to_front` requires it. Then the non-empty rows of each slot are adjacent from row 0 on, followed by the closing
    row (the observation after the last step).

    Args:
        valid: Whether a row holds a step, [T, B].
        terminateds: Whether the step terminated its episode, [T, B].
        truncateds: Whether the step truncated its episode, [T, B].
        to_front: Whether rows also move if the first row of a slot is empty; a recurrent network needs the first step
            of each slot in row 0.

    Attributes:
        truncateds: Whether a packed step truncated its episode or is its slot's last, [T, B]. In both cases the next
            row serves only for bootstrapping.
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
        """Whether `pack` moves any row of this fragment."""
        return self._order is not None

    def pack(self, leaf: NDArray[Any]) -> NDArray[Any]:
        """Packs a column [T, B, ...] or [T + 1, B, ...]: makes its rows adjacent, and fills the rest with zeros."""
        if self._filled is None:
            return leaf
        filled = self._filled[: len(leaf)]
        if self._order is None:
            zeros: NDArray[Any] = zeroed(leaf, filled)
            return zeros
        order = self._order[: len(leaf)]
        if len(leaf) == self._length:  # the leaf has no closing row
            filled, order = filled & (order < self._length), order.clip(max=self._length - 1)
        packed = leaf[order, self._slots]
        packed[~filled] = 0
        return packed

    def first(self, leaf: NDArray[Any]) -> NDArray[Any]:
        """Returns row 0, [B, ...], of a packed column [T, B, ...], without packing the other rows."""
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
        """Moves the rows of a packed column [T, B, ...] or [T + 1, B, ...] back to their original places.

        Rows that were empty are filled with zeros.
        """
        if self._order is None or self._filled is None:
            return leaf
        order = self._order[: len(leaf)]
        rows, slots = (self._filled[: len(leaf)] & (order < len(leaf))).nonzero()
        unpacked = np.zeros_like(leaf)
        unpacked[order[rows, slots], slots] = leaf[rows, slots]
        return unpacked
