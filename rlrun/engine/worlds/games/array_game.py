"""Batched deterministic games for tree search: transitions, outcomes and symmetries of n positions at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import ACTION_MASK

OBSERVATION = "observation"
"""Key of the board planes in an observation: the mover's and the opponent's pieces, [rows, columns, 2]."""

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Symmetries:
    """Board symmetries as permutations of cells and actions, starting with the identity.

    Attributes:
        cells: Permutation of the board's C cells (row-major) for each of S symmetries, [S, C]: entry c is the cell
            whose content moves to cell c.
        actions: Permutation of the A actions for each of S symmetries, [S, A]: entry a is the action that becomes
            action a.
    """

    cells: Indices
    actions: Indices

    @staticmethod
    def none(num_cells: int, num_actions: int) -> Symmetries:
        """Returns the trivial symmetries of a game: only the identity."""
        return Symmetries(np.arange(num_cells)[None], np.arange(num_actions)[None])

    @staticmethod
    def from_boards(boards: Sequence[Indices], actions: Sequence[Indices]) -> Symmetries:
        """Creates symmetries from cell and action permutations.

        Args:
            boards: For each symmetry, the index of the source cell of each cell, [rows, columns].
            actions: For each symmetry, the index of the source action of each action, [A].
        """
        return Symmetries(np.stack([board.ravel() for board in boards]), np.stack(list(actions)))

    def __len__(self) -> int:
        """Number of symmetries, S."""
        return len(self.cells)

    def move(self, observations: Mapping[str, Any], which: Indices) -> dict[str, Any]:
        """Transforms each of n observations (board and action mask) by the symmetry with index `which[i]`."""
        return {
            OBSERVATION: self.move_cells(observations[OBSERVATION], which),
            ACTION_MASK: self.move_actions(observations[ACTION_MASK], which),
        }

    def move_cells(self, boards: NDArray[Any], which: Indices) -> NDArray[Any]:
        """Permutes the cells of n boards [n, rows, columns, ...], board i by the symmetry with index `which[i]`."""
        flat = boards.reshape(len(boards), self.cells.shape[1], -1)
        moved = np.take_along_axis(flat, self.cells[which][..., None], axis=1)
        return moved.reshape(boards.shape)

    def move_actions(self, numbers: NDArray[Any], which: Indices) -> NDArray[Any]:
        """Permutes values of A actions in n rows, [n, A]; row i by the symmetry with index `which[i]`."""
        return np.take_along_axis(numbers, self.actions[which], axis=1)


States = NDArray[Any]
"""Batch of positions, [n, ...]: rows of numbers, or Python objects [n]; rows are immutable."""
Tree = Any
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


class ArrayGame(Protocol):
    """Deterministic single-player or two-player zero-sum game, played in many positions at once.

    The mover is the player to act in a position.

    Attributes:
        num_actions: Size of the action space, A, including illegal actions.
        symmetries: Symmetries of the board, for data augmentation.
    """

    num_actions: int
    symmetries: Symmetries

    def first(self, number: int, seed: int = 0) -> States:
        """Returns n initial positions; if a game's start is random, position i is drawn with `seed + i`."""
        ...

    def legal(self, states: States) -> Flags:
        """Returns the masks of legal actions in n positions, [n, A]; arbitrary for terminal positions."""
        ...

    def play(self, states: States, actions: NDArray[np.int64]) -> States:
        """Returns the successors of n positions after one legal action in each; the inputs are unchanged."""
        ...

    def results(self, states: States) -> tuple[Flags, Floats]:
        """Returns the mask of terminal positions [n], and the outcomes for the players to act, [n] in [-1, 1].

        The outcome of a position that is not terminal is 0.
        """
        ...

    def movers(self, states: States) -> Floats:
        """Returns the player to act in each position, [n]: 1 for the first player, -1 for the second."""
        ...

    def observe(self, states: States) -> Tree:
        """Returns the observations of the players to act, arrays [n, ...]."""
        ...

    def positions(self, observations: Tree) -> States:
        """Reconstructs n positions from the observations of the players to act; the inverse of `observe`."""
        ...
