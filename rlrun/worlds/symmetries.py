"""What turns a position of a board game into others of the same value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.action_masks import ACTION_MASK

OBSERVATION = "observation"
"""The leaf of an observation that shows the board: the mover's pieces and the other player's, [rows, columns, 2]."""

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Symmetries:
    """Permutations of a board's cells, and of the actions that go with them; the first one moves nothing.

    Attributes:
        cells: Of each symmetry the cell that comes to stand in each place, row by row, [S, C].
        actions: Of each symmetry the action that comes to stand in each place, [S, A].
    """

    cells: Indices
    actions: Indices

    @staticmethod
    def none(num_cells: int, num_actions: int) -> Symmetries:
        """Returns those of a game in which nothing may be moved."""
        return Symmetries(np.arange(num_cells)[None], np.arange(num_actions)[None])

    @staticmethod
    def of_boards(boards: Sequence[Indices], actions: Sequence[Indices]) -> Symmetries:
        """Returns those that boards of cell numbers [rows, columns] show, each with its order of the actions [A]."""
        return Symmetries(np.stack([board.ravel() for board in boards]), np.stack(list(actions)))

    def __len__(self) -> int:
        """Number of symmetries, S."""
        return len(self.cells)

    def move(self, observations: Mapping[str, Any], which: Indices) -> dict[str, Any]:
        """Returns what movers see, boards and action masks, moved by symmetry `which` [n]."""
        return {
            OBSERVATION: self.move_cells(observations[OBSERVATION], which),
            ACTION_MASK: self.move_actions(observations[ACTION_MASK], which),
        }

    def move_cells(self, boards: NDArray[Any], which: Indices) -> NDArray[Any]:
        """Returns boards [n, rows, columns, ...] moved by symmetry `which` [n]."""
        flat = boards.reshape(len(boards), self.cells.shape[1], -1)
        moved = np.take_along_axis(flat, self.cells[which][..., None], axis=1)
        return moved.reshape(boards.shape)

    def move_actions(self, numbers: NDArray[Any], which: Indices) -> NDArray[Any]:
        """Returns a number for each action, [n, A], moved by symmetry `which` [n]."""
        return np.take_along_axis(numbers, self.actions[which], axis=1)
