"""What turns a position of a board game into others of the same value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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

    def move_cells(self, boards: NDArray[np.float32], which: Indices) -> NDArray[np.float32]:
        """Returns boards [n, rows, columns, ...] moved by symmetry `which` [n]."""
        flat = boards.reshape(len(boards), self.cells.shape[1], -1)
        moved = np.take_along_axis(flat, self.cells[which][..., None], axis=1)
        return moved.reshape(boards.shape)

    def move_actions(self, numbers: NDArray[np.float32], which: Indices) -> NDArray[np.float32]:
        """Returns a number for each action, [n, A], moved by symmetry `which` [n]."""
        return np.take_along_axis(numbers, self.actions[which], axis=1)
