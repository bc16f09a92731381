"""Board symmetries (rotations, reflections) that preserve a position's value, for data augmentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import ACTION_MASK

OBSERVATION = "observation"
"""Key of the board planes in an observation: the mover's and the opponent's pieces, [rows, columns, 2]."""

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Symmetries:
    """Board symmetries as permutations of cells and actions, beginning with the identity.

    Attributes:
        cells: Source cell of each target cell, in row-major order, for each symmetry, [S, C].
        actions: Source action of each target action, for each symmetry, [S, A].
    """

    cells: Indices
    actions: Indices

    @staticmethod
    def none(num_cells: int, num_actions: int) -> Symmetries:
        """Returns the trivial symmetries of a game: the identity only."""
        return Symmetries(np.arange(num_cells)[None], np.arange(num_actions)[None])

    @staticmethod
    def from_boards(boards: Sequence[Indices], actions: Sequence[Indices]) -> Symmetries:
        """Creates symmetries from permuted boards of cell numbers [rows, columns] and permutations of actions [A]."""
        return Symmetries(np.stack([board.ravel() for board in boards]), np.stack(list(actions)))

    def __len__(self) -> int:
        """Number of symmetries, S."""
        return len(self.cells)

    def move(self, observations: Mapping[str, Any], which: Indices) -> dict[str, Any]:
        """Transforms observations (boards and action masks) by the symmetries with indices `which` [n]."""
        return {
            OBSERVATION: self.move_cells(observations[OBSERVATION], which),
            ACTION_MASK: self.move_actions(observations[ACTION_MASK], which),
        }

    def move_cells(self, boards: NDArray[Any], which: Indices) -> NDArray[Any]:
        """Permutes the cells of boards [n, rows, columns, ...] by the symmetries with indices `which` [n]."""
        flat = boards.reshape(len(boards), self.cells.shape[1], -1)
        moved = np.take_along_axis(flat, self.cells[which][..., None], axis=1)
        return moved.reshape(boards.shape)

    def move_actions(self, numbers: NDArray[Any], which: Indices) -> NDArray[Any]:
        """Permutes values per action [n, A] by the symmetries with indices `which` [n]."""
        return np.take_along_axis(numbers, self.actions[which], axis=1)
